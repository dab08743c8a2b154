import type { ControllerHandoff } from "../api.ts";
import { plural, short, took } from "../format.ts";
import { type Arrow, arrange, meaning, type Sequence } from "../sequence.ts";
import { useWidth } from "../state.ts";
import { ended } from "../store.ts";

const kinds = ["packet", "call", "flow-mod", "barrier", "packet-out"];
const most = 400; // steps that are drawn

/** Diagram is the sequence diagram of a handoff, up to a step, and the steps in words. */
export function Diagram({ h, visible }: { h: ControllerHandoff; visible: number }) {
	const [ref, width] = useWidth();
	const steps = (h.steps ?? []).slice(0, most);
	const s = arrange(steps, Math.max(width, 240));
	const whole = visible >= steps.length;
	const height = s.bottom + (h.failure && whole ? 30 : ended(h) ? 0 : 26);
	return (
		<>
			<div ref={ref} class="sequence">
				{width > 0 && (
					<svg
						width={width}
						height={height}
						role="img"
						aria-label={`Sequence diagram of handoff ${h.id}: ${visible} of ${plural(steps.length, "step")}; they are listed below`}
					>
						<Lanes s={s} height={height} />
						{s.arrows.slice(0, visible).map((a, i) => (
							<ArrowLine key={i} a={a} s={s} last={i === visible - 1} />
						))}
						{whole && h.failure && <Failure s={s} width={width} />}
						{whole && !ended(h) && (
							<text class="small running" x={width / 2} y={s.bottom + 14} text-anchor="middle">
								waiting for the next step …
							</text>
						)}
					</svg>
				)}
			</div>
			<ul class="legend" aria-label="Arrows">
				{kinds.map((k) => (
					<li key={k}>
						<svg width={40} height={14} aria-hidden="true">
							<Line kind={k} x1={3} x2={37} y={7} />
						</svg>
						{k.replace("-", " ")}
					</li>
				))}
			</ul>
			{width > 0 && <Steps h={h} visible={visible} narrow={s.narrow} />}
		</>
	);
}

function Lanes({ s, height }: { s: Sequence; height: number }) {
	return (
		<>
			{!s.narrow && (
				<text class="small" x={4} y={24}>
					time
				</text>
			)}
			{s.names.map((name, i) => {
				const x = s.x[i] ?? 0;
				const text = short(name, s.narrow ? 11 : 16);
				const half = s.narrow ? 36 : Math.max(46, 4 * text.length + 6);
				const left = Math.max(1, Math.min(x - half, s.width - 2 * half - 1));
				const y = s.narrow && i % 2 === 1 ? 32 : 8; // narrow lanes have names at two heights
				return (
					<g key={name}>
						<path class="lane" d={`M${x} ${y + 24}V${height}`} />
						<rect class="participant" x={left} y={y} width={2 * half} height={24} rx={5} />
						<text class={s.narrow ? "name tight" : "name"} x={left + half} y={y + 16} text-anchor="middle">
							{text}
						</text>
					</g>
				);
			})}
		</>
	);
}

function ArrowLine({ a, s, last }: { a: Arrow; s: Sequence; last: boolean }) {
	return (
		<g class={`arrow ${last ? "last" : ""}`} data-label={a.step.label}>
			{!s.narrow && (
				<text class="small time" x={s.gutter - 10} y={a.y + 4} text-anchor="end">
					{a.time}
				</text>
			)}
			<Line kind={a.step.kind} x1={a.x1} x2={a.x2} y={a.y} />
			<text class="label" x={a.labelX} y={a.y - 6} text-anchor="middle">
				{a.label}
			</text>
		</g>
	);
}

/** Line is an arrow; each kind has a stroke and a head of its own. */
function Line({ kind, x1, x2, y }: { kind: string; x1: number; x2: number; y: number }) {
	const name = kinds.includes(kind) ? kind : "other";
	if (x1 === x2) return <path class={`shaft ${name}`} d={`M${x1} ${y - 6}h16v12h-14m4 -4l-5 4 5 4`} />;
	const way = x2 > x1 ? 1 : -1;
	const back = x2 - way * 9;
	const open = kind === "call" || kind === "barrier";
	return (
		<>
			<path class={`shaft ${name}`} d={`M${x1} ${y}H${open ? x2 : back}`} />
			{open ? (
				<path class={`head open ${name}`} d={`M${back} ${y - 5}L${x2} ${y}L${back} ${y + 5}`} />
			) : (
				<path class={`head ${name}`} d={`M${back} ${y - 5}L${x2} ${y}L${back} ${y + 5}z`} />
			)}
			{kind === "flow-mod" && <rect class={`head ${name}`} x={x1 - 4} y={y - 4} width={8} height={8} />}
			{kind === "packet-out" && <circle class={`head ${name}`} cx={x1} cy={y} r={4} />}
		</>
	);
}

function Failure({ s, width }: { s: Sequence; width: number }) {
	return (
		<g class="failed">
			<path d={`M${s.gutter + 4} ${s.bottom + 12}H${width - 4}`} />
			<text class="label" x={(s.gutter + width) / 2} y={s.bottom + 17} text-anchor="middle">
				✕ failed
			</text>
		</g>
	);
}

/** Steps are the arrows in words. */
function Steps({ h, visible, narrow }: { h: ControllerHandoff; visible: number; narrow: boolean }) {
	const steps = (h.steps ?? []).slice(0, most);
	return (
		<details class="steps" open={!narrow}>
			<summary>Steps in words</summary>
			<ol>
				{steps.slice(0, visible).map((s, i) => {
					const before = steps[i - 1]?.at_ns ?? 0;
					const what = meaning(s);
					return (
						<li key={i}>
							<span class="mono">{took(s.at_ns)}</span>
							<span class="muted mono">{`+${took(Math.max(0, s.at_ns - before))}`}</span>
							<span>
								{s.kind.replace("-", " ")}, {s.from} → {s.to}: <strong>{s.label}</strong>
								{what && <span class="muted"> – {what}</span>}
							</span>
						</li>
					);
				})}
			</ol>
			{(h.steps?.length ?? 0) > most && <p class="muted">The first {most} steps are shown.</p>}
		</details>
	);
}
