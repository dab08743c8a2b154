// Where the parts of a sequence diagram are drawn. Pure.

import type { ControllerStep } from "./api.ts";
import { short, took } from "./format.ts";

/** lanes are the participants from the left to the right; those of the paper are always there, switches of other networks if they take part. */
const lanes = ["client", "access", "switch", "core", "router's switch", "controller", "router", "surrogate"];
const sometimes = new Set(["switch", "router's switch"]);
const most = 12; // lanes

const letter = 7.2; // px at 12 px, of a wide font

export interface Arrow {
	step: ControllerStep;
	x1: number;
	x2: number;
	y: number;
	label: string;
	labelX: number;
	time: string;
}

export interface Sequence {
	names: string[];
	x: number[];
	arrows: Arrow[];
	top: number;
	bottom: number;
	narrow: boolean;
	gutter: number;
	width: number;
}

/** arrange places the steps of a handoff in a width. When it is narrow, a time stands before its label instead of in a column. */
export function arrange(steps: ControllerStep[], width: number): Sequence {
	const present = new Set(steps.flatMap((s) => [s.from, s.to]));
	const names = lanes.filter((n) => !sometimes.has(n) || present.has(n));
	for (const n of present) if (!names.includes(n) && names.length < most) names.push(n);
	const narrow = width < 640;
	const gutter = narrow ? 0 : 76;
	const lane = (width - gutter) / names.length;
	const x = names.map((_, i) => gutter + lane * (i + 0.5));
	const [top, height] = narrow ? [66, 38] : [46, 34];
	const arrows = steps.map((step, i): Arrow => {
		const [x1, x2] = [x[names.indexOf(step.from)] ?? gutter, x[names.indexOf(step.to)] ?? gutter];
		const y = top + height * (i + 1) - 6;
		const at = took(step.at_ns);
		const text = narrow ? `${at} · ${step.label}` : step.label;
		const label = short(text, Math.floor((width - gutter) / letter));
		const half = (label.length * letter) / 2;
		const middle = x1 === x2 ? x1 + 30 : (x1 + x2) / 2;
		const labelX = Math.max(gutter + half, Math.min(width - half, middle));
		return { step, x1, x2, y, label, labelX, time: at };
	});
	return { names, x, arrows, top, bottom: top + height * (steps.length + 0.6), narrow, gutter, width };
}

const flowMods: Record<string, string> = {
	"1": "holds back what the request router sends to the client",
	"2": "surrogate → client at the core: destination becomes the client; sequence and acknowledgement numbers of the client's session",
	"3": "surrogate → client at the access: source becomes the service",
	"4": "client → surrogate at the core: source becomes the request router; sequence and acknowledgement numbers of the leg",
	"5": "client → surrogate at the access: destination becomes the surrogate",
	"6": "blocks request router → client",
	"7": "blocks request router → surrogate",
};

/** meaning says what a step is for, if that is known. */
export function meaning(s: ControllerStep): string {
	const mods = /^flow mods? ([1-7])(?: and ([1-7]))?/i.exec(s.label);
	if (mods) return [mods[1], mods[2]].flatMap((n) => flowMods[n ?? ""] ?? []).join("; ");
	if (/^setrequestsize/.test(s.label)) return "the request router reports the size of the whole request";
	if (/^getmatchingsess/.test(s.label)) return "the request router asks which leg to use";
	if (s.kind === "barrier") return "the switch has done everything before it";
	if (/\bRST\b/.test(s.label)) return "ends a session that the request router no longer needs";
	return "";
}
