import { useState } from "preact/hooks";
import type { ControllerHost, ControllerSwitch } from "../api.ts";
import { age, count, plural, short } from "../format.ts";
import { type Cell, type Drawing, draw, hostName, route, size, wireKey } from "../graph.ts";
import { Badge, inService } from "../parts.tsx";
import { addressOf, type Path, pathOf } from "../path.ts";
import { link, now, useWidth } from "../state.ts";
import { type Model, sessionKey } from "../store.ts";

const listed = 50; // sessions to choose from

export function Topology({ m, selected }: { m: Model; selected: string }) {
	const [node, setNode] = useState("");
	const session = m.sessions.get(selected);
	const path = session && pathOf(m.topology, session);
	const recent = [...m.sessions.values()].slice(-listed).reverse();
	if (session && !recent.includes(session)) recent.unshift(session);
	const chosen = (m.topology.switches ?? []).find((s) => s.id === node);
	return (
		<>
			<div class="filters">
				<label class="field wide">
					Path of session
					<select
						value={session ? selected : ""}
						onChange={(e) => {
							location.hash = link("topology", e.currentTarget.value);
						}}
					>
						<option value="">none</option>
						{recent.map((s) => (
							<option key={sessionKey(s)} value={sessionKey(s)}>
								{s.client} → {s.surrogate || s.service} ({s.state})
							</option>
						))}
					</select>
				</label>
			</div>
			{selected !== "" && (
				<p class="note" role="status">
					{path ? pathText(m, path) : session ? "The topology has no path between the ends of this session." : "This session is gone."}
				</p>
			)}
			<div class="panel">
				<Network m={m} path={path} node={node} choose={setNode} />
				<Loose m={m} />
				<Legend />
			</div>
			{chosen && <SwitchDetails m={m} s={chosen} close={() => setNode("")} />}
			<Lists m={m} />
		</>
	);
}

function pathText(m: Model, p: Path): string {
	const names = p.switches.map((id) => m.topology.switches?.find((s) => s.id === id)?.name ?? id);
	const shown = names.length > 8 ? [...names.slice(0, 4), `… ${names.length - 7} more …`, ...names.slice(-3)] : names;
	return `Shortest path: ${p.ends[0]} → ${shown.join(" → ")} → ${p.ends[1]}`;
}

interface NetworkProps {
	m: Model;
	path?: Path | undefined;
	node: string;
	choose(id: string): void;
}

/** Network is the drawing. One switch is in the order of focus; the arrow keys go to its neighbours. */
export function Network({ m, path, node, choose }: NetworkProps) {
	const [ref, width] = useWidth();
	const [at, setAt] = useState("");
	const d = draw(m.topology, width);
	const cells = [...d.cells.values()].sort((a, b) => a.row - b.row || a.column - b.column || a.y - b.y);
	const states = statesOf(m);
	const focused = d.cells.has(at) ? at : (cells[0]?.switch.id ?? "");
	const keyed = (e: KeyboardEvent, c: Cell) => {
		if (e.key === "Enter" || e.key === " ") choose(c.switch.id === node ? "" : c.switch.id);
		else {
			const next = neighbour(cells, c, e.key);
			if (next === undefined) return;
			setAt(next.switch.id);
			(e.currentTarget as SVGElement).ownerSVGElement?.querySelector<SVGGElement>(`[data-id="${CSS.escape(next.switch.id)}"]`)?.focus();
		}
		e.preventDefault();
	};
	return (
		<div ref={ref} class="network">
			{cells.length === 0 ? (
				<p class="empty">No switch is connected.</p>
			) : (
				width > 0 && (
					<svg
						width={d.width}
						height={d.height}
						role="group"
						aria-label={`Network of ${plural(cells.length, "switch", "switches")}; arrow keys move between them`}
					>
						<Wires m={m} d={d} path={path} />
						{cells.map((c) => (
							<CellGroup
								key={c.switch.id}
								c={c}
								path={path}
								states={states}
								chosen={node === c.switch.id}
								inOrder={c.switch.id === focused}
								keyed={(e) => keyed(e, c)}
								focused={() => setAt(c.switch.id)}
								choose={() => choose(c.switch.id === node ? "" : c.switch.id)}
							/>
						))}
					</svg>
				)
			)}
		</div>
	);
}

interface CellProps {
	c: Cell;
	path: Path | undefined;
	states: Map<string, string>;
	chosen: boolean;
	inOrder: boolean; // of focus
	keyed(e: KeyboardEvent): void;
	focused(): void;
	choose(): void;
}

function CellGroup({ c, path, states, chosen, inOrder, keyed, focused, choose }: CellProps) {
	const s = c.switch;
	return (
		<g
			class={`cell ${s.up ? "up" : "down"} ${path?.switches.includes(s.id) ? "on-path" : ""} ${chosen ? "chosen" : ""}`}
			transform={`translate(${c.x} ${c.y})`}
		>
			{/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: nothing in it takes the focus; the rectangle beside it does */}
			<g aria-hidden="true">
				<SwitchBox c={c} path={path} states={states} />
			</g>
			<rect
				class="hit"
				data-id={s.id}
				role="button"
				tabIndex={inOrder ? 0 : -1}
				aria-pressed={chosen}
				aria-label={spoken(c, states)}
				x={-4}
				y={-4}
				width={size.width + 8}
				height={c.head + 8}
				rx={10}
				onKeyDown={keyed}
				onFocus={focused}
				onClick={choose}
			>
				<title>{`${s.name} (${s.id})`}</title>
			</rect>
		</g>
	);
}

/** spoken is a cell in words. */
function spoken(c: Cell, states: Map<string, string>): string {
	const s = c.switch;
	const hosts = c.hosts.map((h) => [h.kind, ...hostText(h, states)].join(" "));
	if (c.more > 0) hosts.push(moreText(c));
	return `${s.name}, ${s.core ? "core switch" : "switch"}, ${s.up ? "up" : "down"}; hosts: ${hosts.join(", ") || "none"}`;
}

const switchName = (s: ControllerSwitch): string => short(s.name, 19);
const moreText = (c: Cell): string => `and ${count(c.more)} more hosts`;

function stateText(s: ControllerSwitch): string {
	if (!s.up) return "✕ down";
	return short([s.core ? "core" : s.maker, s.role === "equal" ? "" : s.role].filter(Boolean).join(" · "), 22);
}

/** hostText is a host's name, and the state of a surrogate that gets no sessions. */
function hostText(h: ControllerHost, states: Map<string, string>): string[] {
	const state = states.get(h.addresses?.[0] ?? "");
	return state === undefined ? [short(hostName(h), 17)] : [short(hostName(h), 7), state];
}

/** neighbour is the nearest cell in the direction of an arrow key. */
function neighbour(cells: Cell[], from: Cell, key: string): Cell | undefined {
	const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
	if (way === undefined) return undefined;
	const [dx = 0, dy = 0] = way;
	let best: Cell | undefined;
	let least = Number.POSITIVE_INFINITY;
	for (const c of cells) {
		const along = (c.x - from.x) * dx + (c.y - from.y) * dy;
		const aside = Math.abs((c.x - from.x) * dy) + Math.abs((c.y - from.y) * dx);
		if (along > 0 && along + 2 * aside < least) [best, least] = [c, along + 2 * aside];
	}
	return best;
}

function Wires({ m, d, path }: { m: Model; d: Drawing; path: Path | undefined }) {
	const present = new Set(d.wires.map((w) => w.key));
	const onPath = new Set((path?.switches ?? []).slice(1).map((id, i) => wireKey(path?.switches[i] ?? "", id)));
	const lost = new Map([...m.lost.values()].map(({ link: l }) => [wireKey(l.from.switch, l.to.switch), l]));
	return (
		<>
			{d.wires.map((w) => (
				<path
					key={w.key}
					class={`wire ${w.both ? "" : "one-way"} ${onPath.has(w.key) ? "on-path" : ""} ${w.from.switch.up && w.to.switch.up ? "" : "down"}`}
					d={w.path}
				>
					<title>{`${w.from.switch.name} – ${w.to.switch.name}${w.both ? "" : " (seen in one direction)"}`}</title>
				</path>
			))}
			{[...lost].map(([key, l]) => {
				const [from, to] = [d.cells.get(l.from.switch), d.cells.get(l.to.switch)];
				if (present.has(key) || !from || !to) return null;
				const [x, y] = [(from.x + to.x + size.width) / 2, (from.y + from.head / 2 + to.y + to.head / 2) / 2];
				return (
					<g key={`lost ${key}`} class="lost">
						<path class="wire" d={route(d, from, to)} />
						<path class="cross" d={`M${x - 6} ${y - 6}l12 12m0 -12l-12 12`} />
						<title>{`${from.switch.name} – ${to.switch.name}: lost`}</title>
					</g>
				);
			})}
		</>
	);
}

/** statesOf are those surrogates that get no sessions, by address. */
function statesOf(m: Model): Map<string, string> {
	const out = [...m.surrogates.values()].filter((s) => !inService(s));
	return new Map(out.map((s) => [addressOf(s.address), s.up ? "◆ maintenance" : "✕ down"]));
}

function SwitchBox({ c, path, states }: { c: Cell; path: Path | undefined; states: Map<string, string> }) {
	const s = c.switch;
	const dense = c.head < 40;
	return (
		<>
			<rect class="box" width={size.width} height={c.head} rx={7} />
			{s.core && <rect class="inner" x={3} y={3} width={size.width - 6} height={c.head - 6} rx={5} />}
			<text class="name" x={12} y={dense ? 19 : 20}>
				{dense && !s.up ? `✕ ${switchName(s)}` : switchName(s)}
			</text>
			{!dense && (
				<text class="small" x={12} y={36}>
					{stateText(s)}
				</text>
			)}
			{c.hosts.map((h, i) => (
				<HostLine
					key={h.mac}
					h={h}
					above={i === 0 ? 0 : 13}
					y={c.head + i * size.host}
					on={path?.hosts.has(h.mac) ?? false}
					text={hostText(h, states)}
				/>
			))}
			{c.more > 0 && (
				<text class="small" x={30} y={c.head + c.hosts.length * size.host + 18}>
					{moreText(c)}
				</text>
			)}
		</>
	);
}

interface HostProps {
	h: ControllerHost;
	y: number;
	above: number; // of the line to the host before
	on: boolean;
	text: string[];
}

function HostLine({ h, y, above, on, text }: HostProps) {
	const [name, state] = text;
	return (
		<g class={`host ${on ? "on-path" : ""}`} transform={`translate(0 ${y})`}>
			<title>{`${h.kind} ${hostName(h)}: ${(h.addresses ?? []).join(", ")}, ${h.mac}, port ${h.at.port}`}</title>
			<path class="stub" d={`M14 ${-above}V13H21`} />
			<HostSign kind={h.kind} />
			<text class="small host-name" x={38} y={17}>
				{name}
				{state && (
					<tspan class={state.startsWith("✕") ? "bad" : "warn"} dx={6}>
						{state}
					</tspan>
				)}
			</text>
		</g>
	);
}

/** HostSign has a shape for each kind. */
function HostSign({ kind }: { kind: string }) {
	switch (kind) {
		case "router":
			return <path class="sign router" d="M27 6l7 7-7 7-7-7z" />;
		case "surrogate":
			return <rect class="sign surrogate" x={21} y={7} width={12} height={12} rx={1.5} />;
		default:
			return <circle class="sign client" cx={27} cy={13} r={6} />;
	}
}

/** Loose are hosts that cannot be drawn, as their switch is not known. */
function Loose({ m }: { m: Model }) {
	const known = new Set((m.topology.switches ?? []).map((s) => s.id));
	const hosts = (m.topology.hosts ?? []).filter((h) => !known.has(h.at.switch));
	if (hosts.length === 0) return null;
	const named = hosts.slice(0, 10).map(hostName).join(", ");
	return (
		<p class="muted break">
			{plural(hosts.length, "host")} at switches that are not known: {named}
			{hosts.length > 10 && " …"}
		</p>
	);
}

function Legend() {
	return (
		<ul class="legend" aria-label="Signs">
			{["client", "router", "surrogate"].map((kind) => (
				<li key={kind}>
					<svg width={18} height={18} viewBox="18 4 18 18" aria-hidden="true">
						<HostSign kind={kind} />
					</svg>
					{kind === "router" ? "request router" : kind}
				</li>
			))}
			<li>
				<svg width={22} height={18} aria-hidden="true" class="cell up">
					<rect class="box" x={1} y={2} width={20} height={14} rx={3} />
					<rect class="inner" x={4} y={5} width={14} height={8} rx={1.5} />
				</svg>
				core: can join two sessions
			</li>
			<li>
				<svg width={26} height={18} aria-hidden="true">
					<path class="wire on-path" d="M1 9H25" />
				</svg>
				path of the session
			</li>
			<li>
				<svg width={26} height={18} aria-hidden="true" class="lost">
					<path class="wire" d="M1 9H25" />
					<path class="cross" d="M9 5l8 8m0 -8l-8 8" />
				</svg>
				link lost in the last minute
			</li>
		</ul>
	);
}

function SwitchDetails({ m, s, close }: { m: Model; s: ControllerSwitch; close(): void }) {
	const hosts = (m.topology.hosts ?? []).filter((h) => h.at.switch === s.id);
	const names = new Map((m.topology.switches ?? []).map((x) => [x.id, x.name]));
	const faces = new Map(
		(m.topology.links ?? []).filter((l) => l.from.switch === s.id).map((l) => [l.from.port, names.get(l.to.switch) ?? l.to.switch]),
	);
	for (const h of hosts) faces.set(h.at.port, hostName(h));
	return (
		<section class="panel" aria-label={`Switch ${s.name}`}>
			<div class="panel-head">
				<h3>{s.name}</h3>
				{s.up ? <Badge kind="ok">up {age(s.since, now())}</Badge> : <Badge kind="bad">down</Badge>}
				<button type="button" onClick={close}>
					Close
				</button>
			</div>
			<dl class="facts">
				<div>
					<dt>Datapath</dt>
					<dd class="mono">{s.id}</dd>
				</div>
				<div>
					<dt>Maker</dt>
					<dd>{s.maker || "–"}</dd>
				</div>
				<div>
					<dt>Kind</dt>
					<dd>{s.core ? "core: can join two sessions" : "standard OpenFlow"}</dd>
				</div>
				<div>
					<dt>Controller's role</dt>
					<dd>{s.role}</dd>
				</div>
				<div>
					<dt>Address</dt>
					<dd class="mono">{s.remote || "–"}</dd>
				</div>
				<div>
					<dt>Flow entries</dt>
					<dd>{count(s.flows)}</dd>
				</div>
			</dl>
			<ul class="ports">
				{(s.ports ?? []).map((p) => (
					<li key={p.number}>
						<span class="mono">
							{p.number} {p.name}
						</span>{" "}
						{p.up ? <Badge kind="ok">up</Badge> : <Badge kind="bad">down</Badge>} {faces.get(p.number) ?? p.faces}
					</li>
				))}
			</ul>
		</section>
	);
}

/** Lists are the same network in words. */
function Lists({ m }: { m: Model }) {
	const t = m.topology;
	const names = new Map((t.switches ?? []).map((s) => [s.id, s.name]));
	const point = (p: { switch: string; port: number }) => `${names.get(p.switch) ?? p.switch} port ${p.port}`;
	return (
		<details class="panel">
			<summary>
				As text: {plural(t.switches?.length ?? 0, "switch", "switches")}, {plural(t.links?.length ?? 0, "directed link")},{" "}
				{plural(t.hosts?.length ?? 0, "host")}
			</summary>
			<ul class="plain">
				{(t.switches ?? []).slice(0, 200).map((s) => (
					<li key={s.id}>
						{s.name}: {s.core ? "core" : "standard OpenFlow"}, {s.up ? "up" : "down"}
					</li>
				))}
				{(t.links ?? []).slice(0, 400).map((l) => (
					<li key={`${point(l.from)} ${point(l.to)}`}>
						{point(l.from)} → {point(l.to)}
					</li>
				))}
				{(t.hosts ?? []).slice(0, 400).map((h) => (
					<li key={h.mac}>
						{h.kind} {hostName(h)} ({(h.addresses ?? []).join(", ")}) at {point(h.at)}
					</li>
				))}
			</ul>
		</details>
	);
}
