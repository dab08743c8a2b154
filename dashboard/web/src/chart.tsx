import { clock, digits } from "./format.ts";
import type { Sample } from "./store.ts";

const span = 300_000; // ms that a chart shows
const gap = 15_000; // ms between two samples that no line joins
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

type Point = [at: number, value: number];

/** segmentsOf are the values of a series. Where the page had no connection there is a gap. */
export function segmentsOf(samples: Sample[], series: string, now: number): { segments: Point[][]; most: number; last: number | undefined } {
	const segments: Point[][] = [];
	let most = 0;
	let last: number | undefined;
	let before = Number.NEGATIVE_INFINITY;
	for (const s of samples) {
		const v = s.values.get(series);
		if (v === undefined || s.at < now - span) continue;
		most = Math.max(most, v);
		last = v;
		if (s.at - before > gap) segments.push([]);
		segments.at(-1)?.push([s.at, v]);
		before = s.at;
	}
	if (last !== undefined && now - before < gap) segments.at(-1)?.push([now, last]);
	return { segments, most, last };
}

/** Chart is a small line chart of a series over the last five minutes. */
export function Chart({ title, unit = "", samples, series, now }: Props) {
	const { segments, most, last } = segmentsOf(samples, series, now);
	const top = nice(most);
	const x = (at: number) => ((width * (at - now + span)) / span).toFixed(1);
	const y = (v: number) => (height - (height * v) / top).toFixed(1);
	const lines = segments.map((points) => points.map(([at, v], i) => `${i === 0 ? "M" : "L"}${x(at)} ${y(v)}`).join(""));
	const areas = segments.map((points, i) => `${lines[i]}L${x(points.at(-1)?.[0] ?? 0)} ${height}L${x(points[0]?.[0] ?? 0)} ${height}Z`);
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
					<path class="area" d={areas.join("")} />
					<path class="line" d={lines.join("")} />
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
