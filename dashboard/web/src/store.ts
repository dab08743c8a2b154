// What the page knows of the controller. Events change it, and listeners hear of changes a few times a second at most.

import type {
	ControllerHandoff,
	ControllerLink,
	ControllerRates,
	ControllerSession,
	ControllerSurrogate,
	ControllerTopology,
	RoutingDecision,
} from "./api.ts";
import type { Status } from "./rpc.ts";

export const topics = ["topology", "sessions", "handoffs", "surrogates", "decisions", "rates"] as const;

/** rateNames are the series that a controller measures, besides those of surrogates. */
export const rateNames = ["handshakes", "handoffs", "failures", "packet_ins", "flow_mods"] as const;

export type Topic = (typeof topics)[number];

/** caps are how many items are kept; the oldest go first. */
export const caps = { sessions: 20_000, handoffs: 500, decisions: 2_000, samples: 300, series: 64, held: 50_000 };

/** Sample is the value of each series at a time. */
export interface Sample {
	at: number; // ms
	values: Map<string, number>;
}

export interface Model {
	status: Status;
	role: string; // "" as long as it is not known
	since: number; // of the data, ms; 0: there are none
	topology: ControllerTopology;
	lost: Map<string, { link: ControllerLink; at: number }>; // links that went, for a minute
	sessions: Map<string, ControllerSession>;
	handoffs: Map<number, ControllerHandoff>;
	surrogates: Map<string, ControllerSurrogate>;
	decisions: RoutingDecision[]; // oldest first
	samples: Sample[]; // of this page, a second each
	rates: Sample[]; // of the controller
	counted: { handoffs: number; failures: number }; // that ended since the last sample
	dropped: { sessions: number };
	missing: Set<string>; // topics that the controller does not have
	paused: boolean;
}

export const sessionKey = (s: { client: string; service: string }): string => `${s.client} ${s.service}`;
export const linkKey = (l: ControllerLink): string => `${l.from.switch}:${l.from.port}>${l.to.switch}:${l.to.port}`;

const remembered = 60_000; // ms, of a lost link

export function empty(): Model {
	return {
		status: { kind: "connecting" },
		role: "",
		since: 0,
		topology: { switches: [], links: [], hosts: [] },
		lost: new Map(),
		sessions: new Map(),
		handoffs: new Map(),
		surrogates: new Map(),
		decisions: [],
		samples: [],
		rates: [],
		counted: { handoffs: 0, failures: 0 },
		dropped: { sessions: 0 },
		missing: new Set(),
		paused: false,
	};
}

const list = (v: unknown): unknown[] => (Array.isArray(v) ? v : []);

/** whole replaces a topic by the answer to subscribe. */
export function whole(m: Model, topic: Topic, value: unknown, now: number): void {
	m.missing.delete(topic);
	switch (topic) {
		case "topology":
		case "rates":
			for (const v of Array.isArray(value) ? value : [value]) event(m, topic, v, now);
			return;
		case "sessions":
			m.sessions = new Map();
			m.dropped.sessions = 0;
			return more(m, list(value) as ControllerSession[], now);
		case "handoffs":
			m.handoffs = new Map();
			break;
		case "surrogates":
			m.surrogates = new Map();
			break;
		case "decisions":
			m.decisions = [];
			break;
	}
	for (const v of list(value)) event(m, topic, v, now);
	m.handoffs = new Map([...m.handoffs].sort(([a], [b]) => a - b));
	m.decisions.sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
	m.counted = { handoffs: 0, failures: 0 };
	m.since = now;
}

/** more adds a page of sessions, and has the newest last. */
export function more(m: Model, page: ControllerSession[], now: number): void {
	for (const v of page) event(m, "sessions", v, now);
	m.sessions = new Map([...m.sessions].sort(([, a], [, b]) => Date.parse(a.since) - Date.parse(b.since)));
	m.since = now;
}

/** event is one item that changed. */
export function event(m: Model, topic: string, value: unknown, now: number): void {
	if (typeof value !== "object" || value === null) return;
	m.since = now;
	switch (topic) {
		case "topology":
			return topologyChanged(m, value as ControllerTopology, now);
		case "sessions":
			return sessionChanged(m, value as ControllerSession);
		case "handoffs":
			return handoffChanged(m, value as ControllerHandoff);
		case "surrogates":
			m.surrogates.set((value as ControllerSurrogate).name, value as ControllerSurrogate);
			return;
		case "decisions":
			m.decisions.push(value as RoutingDecision);
			if (m.decisions.length > caps.decisions * 1.1) m.decisions.splice(0, m.decisions.length - caps.decisions);
			return;
		case "rates":
			return ratesChanged(m, value as ControllerRates, now);
	}
}

function topologyChanged(m: Model, t: ControllerTopology, now: number): void {
	const present = new Set((t.links ?? []).map(linkKey));
	const known = new Set((t.switches ?? []).map((s) => s.id));
	for (const l of m.topology.links ?? []) {
		if (!present.has(linkKey(l)) && known.has(l.from.switch) && known.has(l.to.switch)) m.lost.set(linkKey(l), { link: l, at: now });
	}
	for (const [key, { at }] of m.lost) {
		if (present.has(key) || now - at > remembered) m.lost.delete(key);
	}
	m.topology = t;
}

function sessionChanged(m: Model, s: ControllerSession): void {
	const key = sessionKey(s);
	m.sessions.delete(key); // the order of the map is that of the changes
	m.sessions.set(key, s);
	if (m.sessions.size <= caps.sessions) return;
	let victim: string | undefined;
	let looked = 0;
	for (const [k, v] of m.sessions) {
		victim ??= k;
		if (v.state === "closed") {
			victim = k;
			break;
		}
		if (++looked === 100) break;
	}
	if (victim !== undefined && m.sessions.get(victim)?.state !== "closed") m.dropped.sessions++;
	if (victim !== undefined) m.sessions.delete(victim);
}

/** ended says whether a handoff is over. */
export const ended = (h: ControllerHandoff): boolean => (h.failure ?? "") !== "" || (h.took_ns ?? 0) > 0;

function handoffChanged(m: Model, h: ControllerHandoff): void {
	const before = m.handoffs.get(h.id);
	if (ended(h) && (before === undefined || !ended(before))) {
		m.counted.handoffs++;
		if (h.failure) m.counted.failures++;
	}
	m.handoffs.set(h.id, h);
	if (m.handoffs.size > caps.handoffs) {
		const oldest = m.handoffs.keys().next().value;
		if (oldest !== undefined) m.handoffs.delete(oldest);
	}
}

function ratesChanged(m: Model, r: ControllerRates, now: number): void {
	const values = new Map<string, number>();
	const add = (series: string, v: unknown) => {
		if (typeof v === "number" && Number.isFinite(v) && values.size < caps.series) values.set(series, v);
	};
	for (const series of rateNames) add(series, r[series]);
	for (const [name, v] of Object.entries(r.surrogates ?? {})) add(`surrogate ${name}`, v);
	const at = Date.parse(r.time);
	m.rates.push({ at: Number.isNaN(at) ? now : at, values });
	if (m.rates.length > caps.samples) m.rates.splice(0, m.rates.length - caps.samples);
}

/** sample counts what the page sees, once a second. */
export function sample(m: Model, now: number): void {
	if (m.status.kind !== "open" || m.paused || m.since === 0) return;
	const last = m.samples.at(-1);
	const seconds = last === undefined ? 1 : Math.max(1, (now - last.at) / 1000); // a hidden tab is woken less often
	const values = new Map<string, number>();
	let live = 0;
	for (const s of m.sessions.values()) if (s.state !== "closed") live++;
	values.set("sessions", live);
	values.set("handoffs", m.counted.handoffs / seconds);
	values.set("failures", m.counted.failures / seconds);
	for (const s of m.surrogates.values()) values.set(`surrogate ${s.name}`, s.sessions);
	m.samples.push({ at: now, values });
	if (m.samples.length > caps.samples) m.samples.shift();
	m.counted = { handoffs: 0, failures: 0 };
}

const often = 100; // ms between two renderings at least

/** Store holds the model, and what happens while the reader has paused it. */
export class Store {
	readonly model = empty();
	private readonly listeners = new Set<() => void>();
	private held: (() => void)[] = [];
	private timer = 0;
	private cost = 0; // ms, of the last rendering

	/** change applies a change, at once or when the pause ends. */
	change(f: (m: Model) => void): void {
		if (this.model.paused && this.held.length < caps.held) {
			this.held.push(() => f(this.model));
			this.notify(); // of how many they are
			return;
		}
		this.pause(false);
		f(this.model);
		this.notify();
	}

	/** now applies a change even in a pause. */
	now(f: (m: Model) => void): void {
		f(this.model);
		this.notify();
	}

	pause(on: boolean): void {
		if (on === this.model.paused) return;
		this.model.paused = on;
		for (const f of this.held.splice(0)) f();
		this.notify();
	}

	get waiting(): number {
		return this.held.length;
	}

	listen(f: () => void): () => void {
		this.listeners.add(f);
		return () => this.listeners.delete(f);
	}

	private notify(): void {
		if (this.timer !== 0) return;
		this.timer = setTimeout(
			() => {
				this.timer = 0;
				const began = performance.now();
				for (const f of this.listeners) f();
				this.cost = performance.now() - began;
			},
			Math.max(often, 8 * this.cost),
		) as unknown as number;
	}
}
