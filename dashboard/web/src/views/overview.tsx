import type { ComponentChildren } from "preact";
import type { ControllerHandoff, ControllerSurrogate } from "../api.ts";
import { Chart } from "../chart.tsx";
import { compare, count, plural, took } from "../format.ts";
import { inService } from "../parts.tsx";
import { link, now } from "../state.ts";
import { ended, type Model } from "../store.ts";
import { HandoffLink } from "./handoffs.tsx";
import { handoffRates } from "./rates.tsx";
import { Cards } from "./surrogates.tsx";
import { Network } from "./topology.tsx";

const recent = 5;

export function Overview({ m }: { m: Model }) {
	const surrogates = [...m.surrogates.values()].sort((a, b) => compare(a.name, b.name));
	const handoffs = [...m.handoffs.values()].reverse();
	return (
		<>
			<Tiles m={m} handoffs={handoffs} surrogates={surrogates} />
			<div class="split">
				<div class="stack">
					<section class="panel" aria-labelledby="o-net">
						<Head id="o-net" view="topology">
							Topology
						</Head>
						<Network
							m={m}
							node=""
							choose={() => {
								location.hash = link("topology");
							}}
						/>
					</section>
					<div class="charts">
						<Chart title="Live sessions" samples={m.samples} series="sessions" now={now()} />
						<Chart title="Handoffs" unit="/s" samples={handoffRates(m)} series="handoffs" now={now()} />
					</div>
				</div>
				<section class="panel" aria-labelledby="o-hand">
					<Head id="o-hand" view="handoffs">
						Last handoffs
					</Head>
					<ul class="list">
						{handoffs.slice(0, recent).map((h) => (
							<HandoffLink key={h.id} h={h} />
						))}
					</ul>
					{handoffs.length === 0 && <p class="empty">There was no handoff yet.</p>}
				</section>
			</div>
			<section aria-labelledby="o-surr">
				<Head id="o-surr" view="surrogates">
					Surrogates
				</Head>
				<Cards list={surrogates.slice(0, 8)} all={surrogates} />
				{surrogates.length > 8 && <p class="muted">{plural(surrogates.length - 8, "more surrogate")}</p>}
			</section>
		</>
	);
}

interface TilesProps {
	m: Model;
	handoffs: ControllerHandoff[];
	surrogates: ControllerSurrogate[];
}

function Tiles({ m, handoffs, surrogates }: TilesProps) {
	const switches = m.topology.switches ?? [];
	const live = [...m.sessions.values()].filter((s) => s.state !== "closed");
	const down = switches.filter((s) => !s.up).length;
	const out = surrogates.filter((s) => !inService(s)).length;
	return (
		<div class="tiles">
			<Tile
				view="sessions"
				title="Live sessions"
				value={count(live.length)}
				sub={`${count(live.filter((s) => s.state === "handed-off").length)} handed off`}
			/>
			<Tile
				view="handoffs"
				title="Handoff, median"
				value={median(handoffs.flatMap((h) => (ended(h) && !h.failure ? [h.took_ns ?? 0] : [])))}
				sub={failures(handoffs.filter((h) => h.failure).length)}
			/>
			<Tile
				view="surrogates"
				title="Surrogates in service"
				value={`${surrogates.length - out}/${surrogates.length}`}
				sub={out > 0 ? `✕ ${out} out of service` : "all"}
				bad={out > 0}
			/>
			<Tile
				view="topology"
				title="Switches up"
				value={`${switches.length - down}/${switches.length}`}
				sub={down > 0 ? `✕ ${down} down` : "all"}
				bad={down > 0}
			/>
		</div>
	);
}

const failures = (n: number): string => (n === 0 ? "none failed" : `✕ ${count(n)} failed`);

function median(all: number[]): string {
	const middle = all.sort((a, b) => a - b)[Math.floor(all.length / 2)];
	return middle === undefined ? "–" : took(middle);
}

function Head({ id, view, children }: { id: string; view: string; children: ComponentChildren }) {
	return (
		<div class="panel-head">
			<h3 id={id}>
				<a href={link(view)}>{children}</a>
			</h3>
		</div>
	);
}

function Tile({ view, title, value, sub, bad }: { view: string; title: string; value: string; sub: string; bad?: boolean }) {
	return (
		<a class="tile" href={link(view)}>
			<span class="title">{title}</span>
			<span class="value">{value}</span>
			<span class={bad ? "sub bad" : "sub"}>{sub}</span>
		</a>
	);
}
