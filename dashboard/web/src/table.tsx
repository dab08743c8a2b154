import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { compare, count } from "./format.ts";

export interface Column<T> {
	key: string;
	title: string;
	cell(row: T): ComponentChildren;
	by?(row: T): string | number; // to sort by
	numeric?: boolean;
}

interface Props<T> {
	caption: string;
	columns: Column<T>[];
	rows: T[];
	of: number; // how many there are without the filter
	id(row: T): string;
	first: string; // the column to sort by
	down?: boolean;
	selected?: string;
	nothing: string;
	notice?: string;
}

const step = 100; // rows; a table of thousands would make the page slow and be read by nobody

interface Order {
	key: string;
	down: boolean;
}

function order<T>(rows: T[], columns: Column<T>[], { key, down }: Order): T[] {
	const by = columns.find((c) => c.key === key)?.by;
	if (by === undefined) return rows;
	const sign = down ? -1 : 1;
	return rows
		.map((row, at) => ({ row, at, v: by(row) }))
		.sort((a, b) => {
			const d = typeof a.v === "number" && typeof b.v === "number" ? a.v - b.v : compare(String(a.v), String(b.v));
			return sign * d || a.at - b.at;
		})
		.map((x) => x.row);
}

/**
 * Table sorts by its headings, and shows as many rows as a person asks for. On a telephone each row is a card: the roles are
 * explicit, because such CSS takes them away from a table.
 */
export function Table<T>(p: Props<T>) {
	const [sort, setSort] = useState<Order>({ key: p.first, down: p.down ?? false });
	const [shown, setShown] = useState(step);
	const rows = order(p.rows, p.columns, sort);
	const visible = rows.slice(0, shown);
	const turn = (key: string) => setSort((s) => ({ key, down: s.key === key ? !s.down : false }));
	const summary = p.rows.length === p.of ? count(p.of) : `${count(p.rows.length)} of ${count(p.of)}`;
	return (
		<div class="table">
			<div class="table-bar">
				<p class="muted">
					{summary} {p.caption}
					{visible.length < rows.length && `; the first ${count(visible.length)} are shown`}
					{p.notice && `. ${p.notice}`}
				</p>
				<label class="narrow">
					Sort by
					<select value={sort.key} onChange={(e) => turn(e.currentTarget.value)}>
						{p.columns
							.filter((c) => c.by)
							.map((c) => (
								<option key={c.key} value={c.key}>
									{c.title}
								</option>
							))}
					</select>
				</label>
			</div>
			{rows.length === 0 ? (
				<p class="empty">{p.nothing}</p>
			) : (
				<table role="table" aria-label={p.caption}>
					<thead role="rowgroup">
						<tr role="row">
							{p.columns.map((c) => (
								<Heading key={c.key} column={c} sort={sort} turn={turn} />
							))}
						</tr>
					</thead>
					<tbody role="rowgroup">
						{visible.map((row) => (
							<tr role="row" key={p.id(row)} class={p.selected === p.id(row) ? "selected" : undefined}>
								{p.columns.map((c) => (
									<td role="cell" key={c.key} data-title={c.title} class={c.numeric ? "number" : undefined}>
										<div>{c.cell(row)}</div>
									</td>
								))}
							</tr>
						))}
					</tbody>
				</table>
			)}
			{visible.length < rows.length && (
				<button type="button" onClick={() => setShown(shown + step)}>
					Show {count(Math.min(step, rows.length - visible.length))} more
				</button>
			)}
		</div>
	);
}

function Heading<T>({ column, sort, turn }: { column: Column<T>; sort: Order; turn(key: string): void }) {
	const sorted = sort.key === column.key;
	const direction = sorted ? (sort.down ? "descending" : "ascending") : undefined;
	return (
		<th role="columnheader" scope="col" aria-sort={direction} class={column.numeric ? "number" : undefined}>
			{column.by ? (
				<button type="button" class="heading" onClick={() => turn(column.key)}>
					{column.title}
					<span class="arrow" aria-hidden="true">
						{sorted ? (sort.down ? "▼" : "▲") : "↕"}
					</span>
				</button>
			) : (
				column.title
			)}
		</th>
	);
}

/** matches says whether all words of a filter are in a text. */
export function matches(text: string, filter: string): boolean {
	const where = text.toLowerCase();
	return filter
		.toLowerCase()
		.split(/\s+/)
		.every((word) => where.includes(word));
}
