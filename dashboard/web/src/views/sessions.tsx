import { useState } from "preact/hooks";
import type { ControllerSession } from "../api.ts";
import { age, plural, time } from "../format.ts";
import { Choice, Filter, SessionState, sessionStates } from "../parts.tsx";
import { link, now } from "../state.ts";
import { type Model, sessionKey } from "../store.ts";
import { type Column, matches, Table } from "../table.tsx";

const columns: Column<ControllerSession>[] = [
	{ key: "client", title: "Client", by: (s) => s.client, cell: (s) => <span class="mono">{s.client}</span> },
	{ key: "service", title: "Service", by: (s) => s.service, cell: (s) => <span class="mono">{s.service}</span> },
	{ key: "state", title: "State", by: (s) => sessionStates.indexOf(s.state), cell: (s) => <SessionState state={s.state} /> },
	{ key: "surrogate", title: "Surrogate", by: (s) => s.surrogate ?? "", cell: (s) => s.surrogate || "–" },
	{ key: "since", title: "Since", by: (s) => Date.parse(s.since), cell: (s) => <time dateTime={s.since}>{time(s.since)}</time> },
	{ key: "age", title: "Age", numeric: true, cell: (s) => age(s.since, now()) },
	{
		key: "more",
		title: "More",
		cell: (s) => (
			<span class="links">
				<a href={link("topology", sessionKey(s))} aria-label={`Path of ${s.client}`}>
					Path
				</a>
				{s.handoff ? (
					<a href={link("handoffs", String(s.handoff))} aria-label={`Handoff ${s.handoff} of ${s.client}`}>
						Handoff {s.handoff}
					</a>
				) : null}
			</span>
		),
	},
];

export function Sessions({ m }: { m: Model }) {
	const [filter, setFilter] = useState("");
	const [state, setState] = useState("live");
	const wanted = (s: ControllerSession) =>
		(state === "all" || (state === "live" ? s.state !== "closed" : s.state === state)) &&
		(filter === "" || matches(`${s.client} ${s.service} ${s.surrogate ?? ""} ${s.leg?.local ?? ""} ${s.leg?.remote ?? ""}`, filter));
	const rows = [...m.sessions.values()].filter(wanted);
	return (
		<>
			<div class="filters">
				<Filter label="Filter by address or surrogate" value={filter} set={setFilter} />
				<Choice
					label="State"
					value={state}
					set={setState}
					options={[["live", "all live"], ...sessionStates.map((s): [string, string] => [s, s]), ["all", "all, with closed"]]}
				/>
			</div>
			<Table
				caption="sessions"
				columns={columns}
				rows={rows}
				of={m.sessions.size}
				id={sessionKey}
				first="since"
				down
				nothing={m.sessions.size === 0 ? "No client has a session." : "No session matches."}
				notice={m.dropped.sessions > 0 ? `${plural(m.dropped.sessions, "older one is", "older ones are")} left out` : ""}
			/>
		</>
	);
}
