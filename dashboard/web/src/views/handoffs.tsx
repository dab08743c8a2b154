import { useEffect, useState } from "preact/hooks";
import type { ControllerHandoff } from "../api.ts";
import { plural, time, took } from "../format.ts";
import { Badge, Filter } from "../parts.tsx";
import { link } from "../state.ts";
import { ended, type Model, sessionKey } from "../store.ts";
import { matches } from "../table.tsx";
import { Diagram } from "./diagram.tsx";

const listed = 100;
const replayStep = 350; // ms

export function Handoffs({ m, selected }: { m: Model; selected: string }) {
	const [filter, setFilter] = useState("");
	const [failed, setFailed] = useState(false);
	const all = [...m.handoffs.values()].reverse();
	const wanted = all.filter(
		(h) =>
			(!failed || h.failure) &&
			(filter === "" || matches(`${h.id} ${h.client} ${h.service} ${h.surrogate} ${h.request ?? ""} ${h.failure ?? ""}`, filter)),
	);
	const follow = selected === "";
	const shown = follow ? all[0] : m.handoffs.get(Number(selected));
	return (
		<div class="split">
			<section class="panel" aria-label="Sequence diagram">
				{shown ? (
					<Shown key={shown.id} m={m} h={shown} />
				) : (
					<p class="empty">
						{follow
							? "There was no handoff yet. The next one appears here."
							: `Handoff ${selected} is not among the last ${plural(m.handoffs.size, "handoff")}.`}
					</p>
				)}
			</section>
			<section class="panel history" aria-labelledby="history">
				<h3 id="history">History</h3>
				<label class="check">
					<input
						type="checkbox"
						checked={follow}
						onChange={(e) => {
							location.hash = e.currentTarget.checked ? link("handoffs") : link("handoffs", String(shown?.id ?? ""));
						}}
					/>
					Follow the newest
				</label>
				<label class="check">
					<input type="checkbox" checked={failed} onChange={(e) => setFailed(e.currentTarget.checked)} />
					Failed only
				</label>
				<Filter label="Filter" value={filter} set={setFilter} />
				<p class="muted">
					{plural(wanted.length, "handoff")}
					{wanted.length > listed && `; the last ${listed} are shown`}
				</p>
				<ul class="list">
					{wanted.slice(0, listed).map((h) => (
						<HandoffLink key={h.id} h={h} current={h === shown} />
					))}
				</ul>
			</section>
		</div>
	);
}

/** HandoffLink is an item of a list of handoffs. */
export function HandoffLink({ h, current }: { h: ControllerHandoff; current?: boolean }) {
	return (
		<li>
			<a href={link("handoffs", String(h.id))} aria-current={current ? "true" : undefined}>
				<span class="row">
					<strong>#{h.id}</strong> <Outcome h={h} />
				</span>
				<span class="mono">
					{h.client} → {h.surrogate || "?"}
				</span>
				<span class="muted cut">{h.request}</span>
			</a>
		</li>
	);
}

function Outcome({ h }: { h: ControllerHandoff }) {
	if (h.failure) return <Badge kind="bad">failed</Badge>;
	if (!ended(h)) return <Badge kind="warn">running</Badge>;
	return <Badge kind="ok">{took(h.took_ns ?? 0)}</Badge>;
}

function Shown({ m, h }: { m: Model; h: ControllerHandoff }) {
	const steps = h.steps ?? [];
	const [upTo, setUpTo] = useState<number | undefined>(); // undefined: all, as they come
	const [playing, setPlaying] = useState(false);
	const visible = Math.min(upTo ?? steps.length, steps.length);
	useEffect(() => {
		if (!playing) return;
		const timer = setTimeout(() => {
			if (visible < steps.length) setUpTo(visible + 1);
			else {
				setPlaying(false);
				setUpTo(undefined);
			}
		}, replayStep);
		return () => clearTimeout(timer);
	});
	const play = () => {
		setPlaying(!playing);
		if (!playing && visible === steps.length) setUpTo(0);
	};
	return (
		<>
			<div class="panel-head">
				<h3>Handoff {h.id}</h3>
				<Outcome h={h} />
				{m.sessions.has(sessionKey(h)) && <a href={link("topology", sessionKey(h))}>Path</a>}
			</div>
			{h.failure && (
				<p class="failure">
					<strong>Failed:</strong> {h.failure}
				</p>
			)}
			<Facts h={h} />
			<div class="player">
				<button type="button" onClick={play} disabled={steps.length === 0}>
					{playing ? "Stop" : "Replay"}
				</button>
				<label>
					Step {visible} of {steps.length}
					<input
						type="range"
						min={0}
						max={steps.length}
						value={visible}
						aria-valuetext={visible === 0 ? "before the first step" : `${steps[visible - 1]?.label}`}
						onInput={(e) => {
							const at = Number(e.currentTarget.value);
							setPlaying(false);
							setUpTo(at === steps.length ? undefined : at);
						}}
					/>
				</label>
			</div>
			<Diagram h={h} visible={visible} />
		</>
	);
}

function Facts({ h }: { h: ControllerHandoff }) {
	return (
		<dl class="facts">
			<Fact title="Client" value={h.client} />
			<Fact title="Service" value={h.service} />
			<Fact title="Surrogate" value={h.surrogate} />
			<Fact title="Leg" value={h.leg.local && h.leg.remote ? `${h.leg.local} → ${h.leg.remote}` : ""} />
			<Fact title="Request" value={h.request ?? ""} />
			<Fact title="Began" value={time(h.began)} />
		</dl>
	);
}

function Fact({ title, value }: { title: string; value: string }) {
	return (
		<div>
			<dt>{title}</dt>
			<dd class="mono break">{value || "–"}</dd>
		</div>
	);
}
