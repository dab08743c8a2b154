import { Component, type ComponentChildren, render } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { clock, plural, zone } from "./format.ts";
import { Badge } from "./parts.tsx";
import { connection, link, now, start, store, useModel, usePlace } from "./state.ts";
import { ended, type Model } from "./store.ts";
import { Decisions } from "./views/decisions.tsx";
import { Handoffs } from "./views/handoffs.tsx";
import { Overview } from "./views/overview.tsx";
import { Rates } from "./views/rates.tsx";
import { Sessions } from "./views/sessions.tsx";
import { Surrogates } from "./views/surrogates.tsx";
import { Topology } from "./views/topology.tsx";

const views: Record<string, string> = {
	overview: "Overview",
	topology: "Topology",
	sessions: "Sessions",
	handoffs: "Handoffs",
	rates: "Rates",
	surrogates: "Surrogates",
	decisions: "Decisions",
};

function App() {
	const m = useModel();
	const at = usePlace();
	const view = Object.hasOwn(views, at.view) ? at.view : "overview";
	const heading = useRef<HTMLHeadingElement>(null);
	const first = useRef(true);
	const title = views[view] ?? "";
	useLayoutEffect(() => {
		document.title = `${title} – Baton controller`;
		if (!first.current) heading.current?.focus(); // a keyboard and a screen reader go on where the new view begins
		first.current = false;
	}, [title]);
	return (
		<>
			<button type="button" class="skip" onClick={() => heading.current?.focus()}>
				Skip to the content
			</button>
			<header>
				<div class="bar">
					<h1>
						<Logo /> Baton <span class="muted">controller</span>
					</h1>
					<Connected m={m} />
				</div>
				<nav aria-label="Views">
					<ul>
						{Object.entries(views).map(([key, name]) => (
							<li key={key}>
								<a href={link(key)} aria-current={key === view ? "page" : undefined}>
									{name}
								</a>
							</li>
						))}
					</ul>
				</nav>
			</header>
			<main id="content" aria-labelledby="view-title">
				<Trouble m={m} />
				<h2 id="view-title" tabIndex={-1} ref={heading}>
					{title}
				</h2>
				{m.status.kind !== "token" &&
					(m.since > 0 ? (
						<>
							<Missing m={m} view={view} />
							<Guard key={view}>
								<View m={m} view={view} selected={at.selected} />
							</Guard>
						</>
					) : (
						<p class="empty">Waiting for the controller …</p>
					))}
			</main>
			<Footer m={m} />
			<Announcer m={m} />
		</>
	);
}

/** Guard keeps the rest of the page alive when a view cannot draw what the controller has sent. */
class Guard extends Component<{ children: ComponentChildren }, { failure?: string }> {
	override state: { failure?: string } = {};

	static override getDerivedStateFromError(e: unknown) {
		return { failure: String(e) };
	}

	override render() {
		if (this.state.failure === undefined) return this.props.children;
		return (
			<p class="failure" role="alert">
				This view cannot show what the controller has sent: {this.state.failure}
			</p>
		);
	}
}

/** Missing says that a view is empty because the controller has nothing to tell, not because nothing happens. */
function Missing({ m, view }: { m: Model; view: string }) {
	if (m.status.kind !== "open" || !m.missing.has(view)) return null;
	return <p class="note warn">This controller does not report {view}.</p>;
}

function View({ m, view, selected }: { m: Model; view: string; selected: string }) {
	switch (view) {
		case "topology":
			return <Topology m={m} selected={selected} />;
		case "sessions":
			return <Sessions m={m} />;
		case "handoffs":
			return <Handoffs m={m} selected={selected} />;
		case "rates":
			return <Rates m={m} />;
		case "surrogates":
			return <Surrogates m={m} />;
		case "decisions":
			return <Decisions m={m} />;
		default:
			return <Overview m={m} />;
	}
}

function Logo() {
	return (
		<svg class="logo" viewBox="0 0 32 32" aria-hidden="true">
			<rect width="32" height="32" rx="7" />
			<path d="M6 21h7M19 11h7" />
			<path d="m12 22 8-12" class="thick" />
		</svg>
	);
}

/** Connected says whether what is seen is alive, and pauses it. */
function Connected({ m }: { m: Model }) {
	return (
		<div class="connected">
			{m.status.kind === "open" ? (
				<Badge kind="ok">live</Badge>
			) : m.status.kind === "connecting" ? (
				<Badge kind="warn">connecting</Badge>
			) : (
				<Badge kind="bad">not connected</Badge>
			)}
			<button type="button" aria-pressed={m.paused} onClick={() => store.pause(!m.paused)}>
				{m.paused ? "Paused" : "Pause"}
			</button>
		</div>
	);
}

/** Trouble says what is wrong with the connection, and what happens next. */
function Trouble({ m }: { m: Model }) {
	const s = m.status;
	if (s.kind === "token") return <Token why={s.why} />;
	if (s.kind === "open" && m.paused) return <p class="note">Paused: {plural(store.waiting, "change")} will appear when you go on.</p>;
	if (s.kind === "open" || (s.kind === "connecting" && m.since === 0)) return null;
	return (
		<div class="note warn trouble">
			<p>
				{s.kind === "waiting" ? s.why : "Connecting again …"} {m.since > 0 && `What you see is of ${clock(m.since)}.`}{" "}
				{s.kind === "waiting" && <Countdown until={s.until} />}
			</p>
			{s.kind === "waiting" && (
				<button type="button" onClick={() => connection.reconnect()}>
					Connect now
				</button>
			)}
		</div>
	);
}

function Countdown({ until }: { until: number }) {
	const [, tick] = useState(0);
	useEffect(() => {
		const timer = setInterval(() => tick((n) => n + 1), 500);
		return () => clearInterval(timer);
	}, []);
	return <span>Next attempt in {Math.max(0, Math.ceil((until - now()) / 1000))} s.</span>;
}

function Token({ why }: { why: string }) {
	const [token, setToken] = useState("");
	const input = useRef<HTMLInputElement>(null);
	useLayoutEffect(() => input.current?.focus(), []);
	return (
		<form
			class="panel token"
			onSubmit={(e) => {
				e.preventDefault();
				if (token.trim() !== "") connection.authenticate(token.trim());
			}}
		>
			<h3>The controller wants a token</h3>
			{why && (
				<p class="failure" role="alert">
					{why}
				</p>
			)}
			<label class="field">
				Token
				<input ref={input} type="password" value={token} onInput={(e) => setToken(e.currentTarget.value)} autocomplete="off" spellcheck={false} />
			</label>
			<p class="muted">It is kept until you close this tab.</p>
			<button type="submit" class="primary">
				Connect
			</button>
		</form>
	);
}

function Footer({ m }: { m: Model }) {
	const [, render] = useState(0);
	return (
		<footer>
			<label>
				Times in{" "}
				<select
					value={zone.utc ? "UTC" : "local"}
					onChange={(e) => {
						zone.utc = e.currentTarget.value === "UTC";
						render((n) => n + 1);
						store.now(() => undefined);
					}}
				>
					<option value="local">{zone.local}</option>
					<option value="UTC">UTC</option>
				</select>
			</label>
			{m.since > 0 && <span class="muted">Last change {clock(m.since)}</span>}
			<a href="v1/docs">API</a>
			<a href="licences.txt">Licences</a>
		</footer>
	);
}

const quiet = 10_000; // ms between two announcements

/** Announcer tells a screen reader of the connection, of failures, and how many handoffs there were; not of each. */
function Announcer({ m }: { m: Model }) {
	const [text, setText] = useState("");
	const said = useRef({ at: 0, kind: "", newest: 0 });
	useEffect(() => {
		const was = said.current;
		const kind = m.status.kind === "connecting" ? was.kind : m.status.kind;
		const over = [...m.handoffs.values()].filter(ended);
		const newest = over.at(-1)?.id ?? was.newest;
		if (kind !== was.kind) {
			setText({ open: "Connected to the controller.", waiting: "The connection was lost.", token: "The controller wants a token." }[kind] ?? "");
			said.current = { at: now(), kind, newest };
		} else if (newest > was.newest && now() - was.at > quiet) {
			const fresh = over.filter((h) => h.id > was.newest);
			const failed = fresh.filter((h) => h.failure).length;
			setText(`${plural(fresh.length, "handoff")}${failed > 0 ? `, ${failed} failed` : ""}.`);
			said.current = { at: now(), kind, newest };
		}
	});
	return (
		<p class="unseen" role="status" aria-live="polite">
			{text}
		</p>
	);
}

const root = document.getElementById("app");
if (root !== null) {
	render(<App />, root);
	start();
}
