import { clock, digits } from "./format.ts";
import type { Sample } from "./store.ts";

const span = 300_000; // ms that a chart shows
const [width, height] = [300, 80];

/** nice is a round number that is not less. */
export function nice(n: number): number {
	if (n <= 0) return 1;
	const base = 10 ** Math.floor(Math.log10(n));
	return ([1, 2, 5, 10].find((f) => n <= f * base) ?? 10) * base;
}

interface Props {
	title: string;
	unit?: string;
	samples: Sample[];
	series: string;
	now: number;
}

/** Chart is a small line chart of a series over the last five minutes. */
export function Chart({ title, unit = "", samples, series, now }: Props) {
	const points: [number, number][] = [];
	let most = 0;
	let last: number | undefined;
	for (const s of samples) {
		const v = s.values.get(series);
		if (v === undefined || s.at < now - span) continue;
		most = Math.max(most, v);
		last = v;
		points.push([s.at, v]);
	}
	const top = nice(most);
	const x = (at: number) => (width * (at - now + span)) / span;
	const y = (v: number) => height - (height * v) / top;
	const line = points.map(([at, v], i) => `${i === 0 ? "M" : "L"}${x(at).toFixed(1)} ${y(v).toFixed(1)}`).join("");
	const [first, end] = [points[0], points.at(-1)];
	const value = last === undefined ? "no data" : `${digits(last)}${unit}`;
	return (
		<figure class="chart">
			<figcaption>
				<span>{title}</span> <strong>{value}</strong>
			</figcaption>
			<div class="plot">
				<svg
					viewBox={`0 0 ${width} ${height}`}
					preserveAspectRatio="none"
					role="img"
					aria-label={`${title}: ${value}; at most ${digits(most)}${unit} in the last five minutes`}
				>
					<path class="grid" d={`M0 0H${width}M0 ${height / 2}H${width}M0 ${height}H${width}`} />
					{first && end && <path class="area" d={`${line}L${x(end[0]).toFixed(1)} ${height}L${x(first[0]).toFixed(1)} ${height}Z`} />}
					{line && <path class="line" d={line} />}
				</svg>
				<span class="top">{digits(top)}</span>
				<span class="zero">0</span>
			</div>
			<div class="axis">
				<span>{clock(now - span)}</span>
				<span>{clock(now)}</span>
			</div>
		</figure>
	);
}
