import { Chart } from "../chart.tsx";
import { compare } from "../format.ts";
import { now } from "../state.ts";
import { caps, type Model } from "../store.ts";

const most = 24; // charts of surrogates

/** words makes a title of a name in the protocol. */
const words = (name: string): string => {
	const s = name.replaceAll("_", " ");
	return s.charAt(0).toUpperCase() + s.slice(1);
};

export function Rates({ m }: { m: Model }) {
	const at = now();
	const names = [...new Set(m.rates.flatMap((s) => [...s.values.keys()]))].slice(0, caps.series);
	const surrogates = [...m.surrogates.keys()].sort(compare);
	return (
		<>
			<div class="charts">
				<Chart title="Live sessions" samples={m.samples} series="sessions" now={at} />
				<Chart title="Handoffs" unit="/s" samples={m.samples} series="handoffs" now={at} />
				<Chart title="Failed handoffs" unit="/s" samples={m.samples} series="failures" now={at} />
			</div>
			{names.length > 0 && (
				<>
					<h3>Controller</h3>
					<div class="charts">
						{names.map((n) => (
							<Chart key={n} title={words(n)} samples={m.rates} series={n} now={at} />
						))}
					</div>
				</>
			)}
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
