// JSON-RPC 2.0 over a WebSocket that connects again by itself.

export type Status =
	| { kind: "connecting" }
	| { kind: "open" }
	| { kind: "waiting"; until: number; why: string; attempt: number }
	| { kind: "token"; why: string };

/** RPCError is an error that the server answered with. */
export class RPCError extends Error {
	constructor(
		readonly code: number,
		message: string,
	) {
		super(message);
	}
}

interface Handlers {
	status(s: Status): void;
	opened(): void;
	notified(method: string, params: unknown): void;
}

interface Waiting {
	resolve(v: unknown): void;
	reject(e: Error): void;
	timer: number;
}

const firstWait = 500; // ms
const longestWait = 15_000;
const answerWithin = 10_000;
const silence = 20_000; // after that a call finds out whether the connection is alive
const tokenKey = "baton.token";
const slowSubscriber = 4008; // close code

const record = (v: unknown): v is Record<string, unknown> => typeof v === "object" && v !== null && !Array.isArray(v);

export class Connection {
	private socket: WebSocket | undefined;
	private attempt = 0;
	private next = 1;
	private readonly waiting = new Map<number, Waiting>();
	private retry = 0;
	private heard = 0;
	private current: Status = { kind: "connecting" };

	constructor(private readonly on: Handlers) {
		window.addEventListener("online", () => this.reconnect());
		window.setInterval(() => this.probe(), silence / 2);
	}

	/** reconnect connects at once, whatever the back-off says. */
	reconnect(): void {
		if (this.current.kind === "waiting") this.connect();
	}

	/** authenticate uses a token from here on; it is kept until the tab is closed. */
	authenticate(token: string): void {
		sessionStorage.setItem(tokenKey, token);
		this.attempt = 0;
		this.connect();
	}

	connect(): void {
		window.clearTimeout(this.retry);
		this.set({ kind: "connecting" });
		const token = sessionStorage.getItem(tokenKey);
		const url = new URL("v1/ws", location.href);
		url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
		url.hash = "";
		const socket = new WebSocket(url, token === null ? ["jsonrpc"] : ["jsonrpc", `bearer.${encode(token)}`]);
		this.socket = socket;
		let opened = false;
		socket.onopen = () => {
			opened = true;
			this.heard = Date.now();
			this.set({ kind: "open" });
			this.on.opened();
		};
		socket.onmessage = (e) => {
			this.heard = Date.now();
			this.receive(e.data);
		};
		socket.onclose = (e) => {
			if (this.socket !== socket) return;
			this.closed();
			if (opened) this.wait(e.code === slowSubscriber ? "This page was too slow for the events." : e.reason || "The connection was lost.");
			else void this.refused();
		};
	}

	call(method: string, params: unknown): Promise<unknown> {
		const socket = this.socket;
		if (socket?.readyState !== WebSocket.OPEN) return Promise.reject(new Error("There is no connection to the controller."));
		const id = this.next++;
		return new Promise((resolve, reject) => {
			const timer = window.setTimeout(() => {
				this.waiting.delete(id);
				reject(new Error("The controller did not answer."));
			}, answerWithin);
			this.waiting.set(id, { resolve, reject, timer });
			socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
		});
	}

	/** works says that the connection is of use: the back-off begins anew. */
	works(): void {
		this.attempt = 0;
	}

	/** drop ends a connection that is of no use, and connects again. */
	drop(why: string): void {
		const socket = this.socket;
		this.socket = undefined;
		socket?.close();
		this.closed();
		this.wait(why);
	}

	private set(s: Status): void {
		this.current = s;
		this.on.status(s);
	}

	private closed(): void {
		for (const w of this.waiting.values()) {
			window.clearTimeout(w.timer);
			w.reject(new Error("The connection was lost."));
		}
		this.waiting.clear();
	}

	private wait(why: string): void {
		const longest = Math.min(longestWait, firstWait * 2 ** this.attempt++);
		const ms = longest * (0.75 + Math.random() / 4); // pages of a restarted controller come back one after another
		this.set({ kind: "waiting", until: Date.now() + ms, why, attempt: this.attempt });
		this.retry = window.setTimeout(() => this.connect(), ms);
	}

	/** refused asks why there was no WebSocket: a browser hides the answer, but shows it for an ordinary request. */
	private async refused(): Promise<void> {
		const token = sessionStorage.getItem(tokenKey);
		try {
			const headers: Record<string, string> = token === null ? {} : { Authorization: `Bearer ${utf8(token)}` };
			const answer = await fetch("v1/surrogates?limit=1", { headers, cache: "no-store" });
			if (answer.status === 401) {
				sessionStorage.removeItem(tokenKey);
				this.set({ kind: "token", why: token === null ? "" : "The controller does not accept this token." });
				return;
			}
			this.wait(answer.ok ? "The controller refused the WebSocket." : `The controller answered ${answer.status} ${answer.statusText}.`);
		} catch {
			this.wait("The controller cannot be reached.");
		}
	}

	private receive(data: unknown): void {
		let m: unknown;
		try {
			m = JSON.parse(String(data));
		} catch {
			return this.drop("The controller sent something that is not JSON.");
		}
		if (!record(m)) return;
		if (typeof m.method === "string") return this.on.notified(m.method, m.params);
		const w = typeof m.id === "number" ? this.waiting.get(m.id) : undefined;
		if (w === undefined) return;
		this.waiting.delete(m.id as number);
		window.clearTimeout(w.timer);
		const e = m.error;
		if (record(e)) w.reject(new RPCError(Number(e.code), String(e.message)));
		else w.resolve(m.result);
	}

	private probe(): void {
		if (this.current.kind !== "open" || Date.now() - this.heard < silence) return;
		this.call("surrogates", { limit: 1 }).catch((e: Error) => {
			if (!(e instanceof RPCError) && this.current.kind === "open") this.drop(e.message);
		});
	}
}

/** utf8 has a character for each byte of a text, as fields of HTTP and btoa want it. */
const utf8 = (s: string): string => String.fromCharCode(...new TextEncoder().encode(s));

/** encode is base64url, as a subprotocol has no other characters. */
function encode(token: string): string {
	return btoa(utf8(token)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
