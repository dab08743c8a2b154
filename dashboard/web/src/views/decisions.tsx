import { useState } from "preact/hooks";
import type { RoutingDecision } from "../api.ts";
import { time } from "../format.ts";
import { Badge, Choice, Filter } from "../parts.tsx";
import { caps, type Model } from "../store.ts";
import { type Column, matches, Table } from "../table.tsx";

const columns: Column<RoutingDecision>[] = [
	{ key: "time", title: "Time", by: (d) => Date.parse(d.time), cell: (d) => <time dateTime={d.time}>{time(d.time)}</time> },
	{ key: "method", title: "Method", by: (d) => d.method, cell: (d) => d.method },
	{ key: "client", title: "Client", by: (d) => d.client, cell: (d) => <span class="mono">{d.client}</span> },
	{
		key: "name",
		title: "Name and path",
		by: (d) => d.name + (d.path ?? ""),
		cell: (d) => (
			<span class="break">
				{d.name}
				{d.path}
			</span>
		),
	},
	{ key: "site", title: "Site", by: (d) => d.site ?? "", cell: (d) => d.site || "–" },
	{
		key: "surrogate",
		title: "Surrogate",
		by: (d) => d.surrogate ?? "",
		cell: (d) => (d.surrogate ? <strong>{d.surrogate}</strong> : <Badge kind="bad">none</Badge>),
	},
	{
		key: "because",
		title: "Because",
		cell: (d) => (
			<ol class="because">
				{(d.because ?? []).map((b, i) => (
					<li key={i}>{b}</li>
				))}
			</ol>
		),
	},
];

const ids = new WeakMap<RoutingDecision, string>();
let next = 0;

/** idOf is a key for a decision, which has none of its own. */
function idOf(d: RoutingDecision): string {
	const known = ids.get(d) ?? String(next++);
	ids.set(d, known);
	return known;
}

export function Decisions({ m }: { m: Model }) {
	const [filter, setFilter] = useState("");
	const [method, setMethod] = useState("all");
	const rows = m.decisions.filter(
		(d) =>
			(method === "all" || (method === "none" ? !d.surrogate : d.method === method)) &&
			(filter === "" || matches([d.client, d.name + (d.path ?? ""), d.site, d.surrogate, ...(d.because ?? [])].join(" "), filter)),
	);
	return (
		<>
			<div class="filters">
				<Filter label="Filter by client, name, site, surrogate or reason" value={filter} set={setFilter} />
				<Choice
					label="Method"
					value={method}
					set={setMethod}
					options={[
						["all", "all"],
						["handoff", "handoff"],
						["redirect", "redirect"],
						["dns", "dns"],
						["none", "without a surrogate"],
					]}
				/>
			</div>
			<Table
				caption="decisions"
				columns={columns}
				rows={rows}
				of={m.decisions.length}
				id={idOf}
				first="time"
				down
				nothing={m.decisions.length === 0 ? "No client has been routed." : "No decision matches."}
				notice={m.decisions.length >= caps.decisions ? "Older ones are left out" : ""}
			/>
		</>
	);
}
