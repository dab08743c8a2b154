import type { ComponentChildren } from "preact";
import type { ControllerSurrogate } from "./api.ts";

/** Badge is a state: a sign and a word, so that colour is not needed to read it. */
export function Badge({ kind, children }: { kind: "ok" | "warn" | "bad" | "plain"; children: ComponentChildren }) {
	return (
		<span class={`badge ${kind}`}>
			<span aria-hidden="true">{{ ok: "●", warn: "◆", bad: "✕", plain: "○" }[kind]}</span> {children}
		</span>
	);
}

const states: Record<string, string> = { handshake: "◔", established: "◑", requested: "◕", "handed-off": "●", closed: "○" };
export const sessionStates = Object.keys(states);

export function SessionState({ state }: { state: string }) {
	return (
		<span class={`badge state-${Object.hasOwn(states, state) ? state : "other"}`}>
			<span aria-hidden="true">{Object.hasOwn(states, state) ? states[state] : "?"}</span> {state}
		</span>
	);
}

/** Health is whether a surrogate gets sessions, and why not. */
export function Health({ s }: { s: ControllerSurrogate }) {
	if (!s.up) return <Badge kind="bad">down</Badge>;
	if (s.state === "maintenance") return <Badge kind="warn">maintenance</Badge>;
	return <Badge kind="ok">in service</Badge>;
}

export const inService = (s: ControllerSurrogate): boolean => s.up && s.state !== "maintenance";

/** Filter is a field for words. */
export function Filter({ value, set, label }: { value: string; set(v: string): void; label: string }) {
	return (
		<label class="field">
			{label}
			<input type="search" value={value} onInput={(e) => set(e.currentTarget.value)} spellcheck={false} autocomplete="off" />
		</label>
	);
}

export function Choice({ value, set, label, options }: { value: string; set(v: string): void; label: string; options: [string, string][] }) {
	return (
		<label class="field">
			{label}
			<select value={value} onChange={(e) => set(e.currentTarget.value)}>
				{options.map(([key, title]) => (
					<option key={key} value={key}>
						{title}
					</option>
				))}
			</select>
		</label>
	);
}
