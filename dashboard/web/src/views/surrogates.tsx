import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ControllerSurrogate, ControllerSurrogateChange } from "../api.ts";
import { compare, count, digits, plural } from "../format.ts";
import { Badge, Filter, Health, inService } from "../parts.tsx";
import { connection, mayOperate, store } from "../state.ts";
import { event, type Model } from "../store.ts";
import { matches } from "../table.tsx";

const most = 60;

export function Surrogates({ m }: { m: Model }) {
	const [filter, setFilter] = useState("");
	const [changing, setChanging] = useState("");
	const all = [...m.surrogates.values()].sort((a, b) => compare(a.name, b.name));
	const wanted = all.filter((s) => filter === "" || matches(`${s.name} ${s.site ?? ""} ${s.address} ${s.state}`, filter));
	const target = m.surrogates.get(changing);
	return (
		<>
			{all.length > 8 && (
				<div class="filters">
					<Filter label="Filter by name, site or address" value={filter} set={setFilter} />
				</div>
			)}
			<p class="muted">
				{plural(all.length, "surrogate")}, {count(all.filter(inService).length)} in service
				{wanted.length > most && `; the first ${most} are shown`}
				{m.role === "viewer" && ". Only an operator's token may change them."}
			</p>
			{all.length === 0 && <p class="empty">No surrogate is known.</p>}
			<Cards list={wanted.slice(0, most)} all={all} change={mayOperate(m) ? setChanging : undefined} />
			{target && <Change key={changing} s={target} all={all} close={() => setChanging("")} />}
		</>
	);
}

interface CardsProps {
	list: ControllerSurrogate[];
	all: ControllerSurrogate[];
	change?: ((name: string) => void) | undefined;
}

export function Cards({ list, all, change }: CardsProps) {
	const sessions = all.reduce((n, s) => n + s.sessions, 0);
	return (
		<ul class="cards" aria-label="Surrogates">
			{list.map((s) => {
				const share = sessions > 0 ? s.sessions / sessions : 0;
				return (
					<li key={s.name} class="panel card">
						<div class="panel-head">
							<h3>{s.name}</h3>
							<Health s={s} />
						</div>
						<p class="muted">
							{s.site && `${s.site} · `}
							<span class="mono">{s.address}</span>
						</p>
						{s.error && <p class="failure">{s.error}</p>}
						<p class="load">
							<strong>{plural(s.sessions, "session")}</strong> <span class="muted">{digits(Math.round(share * 100))} % of all</span>
						</p>
						<Share of={share} />
						<dl class="facts tight">
							<Fact title="Weight" value={count(s.weight)} />
							<Fact title="Handoffs/s" value={digits(s.rate)} />
							<Fact title="Handoffs" value={count(s.handoffs)} />
							<Fact title="Idle legs" value={count(s.legs)} />
						</dl>
						{change && (
							<button type="button" onClick={() => change(s.name)} aria-haspopup="dialog" aria-label={`Change ${s.name} …`}>
								Change …
							</button>
						)}
					</li>
				);
			})}
		</ul>
	);
}

/** Share is a bar; the number stands above it. */
function Share({ of }: { of: number }) {
	return (
		<svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
			<rect class="all" width={100} height={6} rx={0} />
			<rect class="part" width={Math.min(100, of * 100)} height={6} />
		</svg>
	);
}

function Fact({ title, value }: { title: string; value: string }) {
	return (
		<div>
			<dt>{title}</dt>
			<dd>{value}</dd>
		</div>
	);
}

/** Change asks what to change, then whether it is meant. */
function Change({ s, all, close }: { s: ControllerSurrogate; all: ControllerSurrogate[]; close(): void }) {
	const dialog = useRef<HTMLDialogElement>(null);
	const confirm = useRef<HTMLButtonElement>(null);
	const [weight, setWeight] = useState(String(s.weight));
	const [state, setState] = useState(s.state);
	const [sure, setSure] = useState(false);
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState("");
	useLayoutEffect(() => dialog.current?.showModal(), []);
	useLayoutEffect(() => {
		if (sure) confirm.current?.focus();
	}, [sure]);

	const change: ControllerSurrogateChange = {};
	if (Number(weight) !== s.weight) change.weight = Number(weight);
	if (state !== s.state) change.state = state;
	const nothing = change.weight === undefined && change.state === undefined;
	const last = change.state === "maintenance" && !all.some((o) => o.name !== s.name && inService(o));

	const apply = async () => {
		setBusy(true);
		try {
			const answer = await connection.call("setsurrogate", { name: s.name, change });
			store.now((m) => event(m, "surrogates", answer, Date.now()));
			dialog.current?.close();
		} catch (e) {
			setError((e as Error).message);
		}
	};
	const submit = (e: Event) => {
		e.preventDefault();
		if (sure) void apply();
		else setSure(true);
	};
	const back = () => {
		if (!sure) return dialog.current?.close();
		setSure(false);
		setError("");
	};
	return (
		<dialog ref={dialog} onClose={close} aria-labelledby="change-title">
			<form onSubmit={submit}>
				<h3 id="change-title">Change {s.name}</h3>
				{sure ? <Summary s={s} change={change} last={last} /> : <Fields weight={weight} setWeight={setWeight} state={state} setState={setState} />}
				{error && (
					<p class="failure" role="alert">
						{error}
					</p>
				)}
				<div class="buttons">
					<button type="button" onClick={back} disabled={busy}>
						{sure ? "Back" : "Cancel"}
					</button>
					<button ref={confirm} type="submit" class="primary" disabled={busy || (nothing && !sure)}>
						{sure ? "Apply" : "Continue"}
					</button>
				</div>
			</form>
		</dialog>
	);
}

interface FieldsProps {
	weight: string;
	setWeight(v: string): void;
	state: string;
	setState(v: string): void;
}

function Fields({ weight, setWeight, state, setState }: FieldsProps) {
	return (
		<>
			<fieldset>
				<legend>State</legend>
				{["in-service", "maintenance"].map((v) => (
					<label key={v} class="check">
						<input type="radio" name="state" value={v} checked={state === v} onChange={() => setState(v)} />
						{v === "in-service" ? "in service" : "maintenance: gets no new sessions"}
					</label>
				))}
			</fieldset>
			<label class="field">
				Weight
				<input type="number" min={0} max={1_000_000} step={1} required value={weight} onInput={(e) => setWeight(e.currentTarget.value)} />
			</label>
		</>
	);
}

function Summary({ s, change, last }: { s: ControllerSurrogate; change: ControllerSurrogateChange; last: boolean }) {
	return (
		<>
			<ul class="changes">
				{change.state !== undefined && (
					<li>
						State: {s.state} → <strong>{change.state}</strong>
					</li>
				)}
				{change.weight !== undefined && (
					<li>
						Weight: {count(s.weight)} → <strong>{count(change.weight)}</strong>
					</li>
				)}
			</ul>
			{change.state === "maintenance" && <p>Its {plural(s.sessions, "session")} go on; new sessions go to others.</p>}
			{last && (
				<p>
					<Badge kind="warn">No other surrogate is in service.</Badge>
				</p>
			)}
		</>
	);
}
