import { Chart } from "../chart.tsx";
import { compare } from "../format.ts";
import { now } from "../state.ts";
import { type Model, rateNames, type Sample } from "../store.ts";

const most = 24; // charts of surrogates

const titles = { handshakes: "Handshakes", handoffs: "Handoffs", failures: "Failed handoffs", packet_ins: "Packet-ins", flow_mods: "Flow mods" };

/** handoffRates are the controller's, or, if it sends none, what this page has counted. */
export const handoffRates = (m: Model): Sample[] => (m.rates.length > 0 ? m.rates : m.samples);

export function Rates({ m }: { m: Model }) {
	const at = now();
	const names = rateNames.filter((n) => m.rates.length > 0 || n === "handoffs" || n === "failures");
	const surrogates = [...m.surrogates.keys()].sort(compare);
	return (
		<>
			<div class="charts">
				<Chart title="Live sessions" samples={m.samples} series="sessions" now={at} />
				{names.map((n) => (
					<Chart key={n} title={titles[n]} unit="/s" samples={handoffRates(m)} series={n} now={at} />
				))}
			</div>
			<h3>Sessions of surrogates</h3>
			<div class="charts">
				{surrogates.slice(0, most).map((n) => (
					<Chart key={n} title={n} samples={m.samples} series={`surrogate ${n}`} now={at} />
				))}
			</div>
			{m.rates.length > 0 && (
				<>
					<h3>Handoffs to surrogates</h3>
					<div class="charts">
						{surrogates.slice(0, most).map((n) => (
							<Chart key={n} title={n} unit="/s" samples={m.rates} series={`surrogate ${n}`} now={at} />
						))}
					</div>
				</>
			)}
			{surrogates.length > most && <p class="muted">The first {most} surrogates are shown.</p>}
			{surrogates.length === 0 && <p class="empty">No surrogate is known.</p>}
		</>
	);
}
