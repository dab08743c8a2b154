// What all views share: the store, the connection, and the place that the URL names.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Connection } from "./rpc.ts";
import { event, type Model, Store, sample, topics, whole } from "./store.ts";

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

async function subscribe(): Promise<void> {
	try {
		const answer = (await connection.call("subscribe", { topics })) as Record<string, unknown>;
		store.pause(false);
		store.change((m) => whole(m, answer ?? {}, Date.now()));
	} catch (e) {
		connection.drop(`The controller did not accept the subscription: ${(e as Error).message}`);
	}
}

export function start(): void {
	connection.connect();
	setInterval(() => store.change((m) => sample(m, Date.now())), 1000);
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

/** Role is what the token may do, as far as it is known. */
export const mayOperate = (m: Model): boolean => m.role === "" || m.role === "operator";
