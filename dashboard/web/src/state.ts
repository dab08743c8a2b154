// What all views share: the store, the connection, and the place that the URL names.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ControllerSession } from "./api.ts";
import { Connection, RPCError } from "./rpc.ts";
import { caps, event, type Model, more, Store, sample, sessionKey, type Topic, topics, whole } from "./store.ts";

export const store = new Store();

export const connection = new Connection({
	status: (status) =>
		store.now((m) => {
			m.status = status;
		}),
	opened: () => void subscribe(),
	notified: (method, params) => {
		if (method !== "event" || typeof params !== "object" || params === null) return;
		const { topic, value } = params as { topic?: unknown; value?: unknown };
		store.change((m) => event(m, String(topic), value, Date.now()));
	},
});

const pageSize = 1000; // items, at most, with which a list begins
const forbidden = 4403;

/** subscribe asks for each topic by itself: a controller may have some of them only. */
async function subscribe(): Promise<void> {
	store.pause(false);
	const refused = await Promise.all(topics.map(follow));
	if (refused.every((e) => e !== undefined)) {
		if (refused[0] instanceof RPCError) connection.drop(`The controller refuses to be watched: ${refused[0].message}`);
		return;
	}
	await findRole();
}

async function follow(topic: Topic): Promise<Error | undefined> {
	try {
		const answer = (await connection.call("subscribe", { topics: [topic] })) as Record<string, unknown> | null;
		const value = answer?.[topic];
		connection.works();
		store.change((m) => whole(m, topic, value, Date.now()));
		if (topic === "sessions") await readOn((value ?? []) as ControllerSession[]);
		return undefined;
	} catch (e) {
		store.change((m) => m.missing.add(topic));
		return e as Error;
	}
}

/** findRole asks for a change of nothing, which an operator may ask for and nobody can carry out. */
async function findRole(): Promise<void> {
	const refusal = await connection.call("setsurrogate", []).catch((e: Error) => e);
	if (!(refusal instanceof RPCError)) return;
	store.change((m) => {
		m.role = refusal.code === forbidden ? "viewer" : "operator";
	});
}

/** readOn reads the sessions behind the first page. */
async function readOn(first: ControllerSession[]): Promise<void> {
	let page = first;
	for (let read = page.length; page.length === pageSize && read < caps.sessions; read += page.length) {
		const after = sessionKey(page[pageSize - 1] as ControllerSession);
		const next = ((await connection.call("sessions", { limit: pageSize, after })) ?? []) as ControllerSession[];
		store.change((m) => more(m, next, Date.now()));
		page = next;
	}
}

export function start(): void {
	connection.connect();
	setInterval(() => store.now((m) => sample(m, Date.now())), 1000);
}

/** useModel renders again when the model has changed. */
export function useModel(): Model {
	const [, render] = useState(0);
	useEffect(() => store.listen(() => render((n) => n + 1)), []);
	return store.model;
}

/** useNow is the time, at most a second old, without rendering for it. */
export const now = (): number => Date.now();

/** Place is the view that the URL's fragment names, and what is selected there. */
export interface Place {
	view: string;
	selected: string;
}

export function place(): Place {
	const [view = "", selected = ""] = location.hash.replace(/^#\/?/, "").split("/");
	try {
		return { view, selected: decodeURIComponent(selected) };
	} catch {
		return { view, selected: "" };
	}
}

export const link = (view: string, selected = ""): string => `#/${view}${selected === "" ? "" : `/${encodeURIComponent(selected)}`}`;

export function usePlace(): Place {
	const [at, set] = useState(place);
	useEffect(() => {
		const moved = () => set(place());
		addEventListener("hashchange", moved);
		return () => removeEventListener("hashchange", moved);
	}, []);
	return at;
}

/** useWidth is the width of an element, in pixels. */
export function useWidth(): [(e: Element | null) => void, number] {
	const [width, set] = useState(0);
	const element = useRef<Element | null>(null);
	useLayoutEffect(() => {
		const e = element.current;
		if (e === null) return;
		const observer = new ResizeObserver(() => set(e.clientWidth));
		observer.observe(e);
		set(e.clientWidth);
		return () => observer.disconnect();
	}, []);
	return [
		(e) => {
			element.current = e;
		},
		width,
	];
}

/** mayOperate says whether the token may change surrogates. */
export const mayOperate = (m: Model): boolean => m.role === "operator";
