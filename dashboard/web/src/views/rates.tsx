import { Chart } from "../chart.tsx";
import { compare } from "../format.ts";
import { now } from "../state.ts";
import { caps, type Model, type Sample } from "../store.ts";

const most = 24; // charts of surrogates

/** titles are those of the controller's numbers; others are shown by their names. */
const titles = new Map([
	["handshakes", "Handshakes"],
	["handoffs", "Handoffs"],
	["failures", "Failed handoffs"],
	["packet_ins", "Packet-ins"],
	["flow_mods", "Flow mods"],
]);

/** handoffRates are the controller's, or, if it sends none, what this page has counted. */
export const handoffRates = (m: Model): Sample[] => (m.rates.length > 0 ? m.rates : m.samples);

export function Rates({ m }: { m: Model }) {
	const at = now();
	const own = m.rates.length === 0;
	const sent = new Set(m.rates.flatMap((s) => [...s.values.keys()]));
	const names = [...titles.keys()]
		.filter((n) => own || sent.has(n))
		.concat([...sent].filter((n) => !titles.has(n)))
		.slice(0, caps.series);
	const surrogates = [...m.surrogates.keys()].sort(compare);
	return (
		<>
			<div class="charts">
				<Chart title="Live sessions" samples={m.samples} series="sessions" now={at} />
				{(own ? ["handoffs", "failures"] : names).map((n) => (
					<Chart key={n} title={titles.get(n) ?? n.replaceAll("_", " ")} unit="/s" samples={handoffRates(m)} series={n} now={at} />
				))}
			</div>
			<h3>Sessions of surrogates</h3>
			<div class="charts">
				{surrogates.slice(0, most).map((n) => (
					<Chart key={n} title={n} samples={m.samples} series={`surrogate ${n}`} now={at} />
				))}
			</div>
			{surrogates.length > most && <p class="muted">The first {most} surrogates are shown.</p>}
			{surrogates.length === 0 && <p class="empty">No surrogate is known.</p>}
		</>
	);
}
