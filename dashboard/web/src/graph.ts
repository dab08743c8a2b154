// The network as a graph, and where its parts are drawn. Pure: the same topology gives the same drawing.

import type { ControllerHost, ControllerLink, ControllerSwitch, ControllerTopology } from "./api.ts";
import { compare } from "./format.ts";

export const size = { width: 164, head: 46, host: 26, gapX: 44, gapY: 22, hosts: 5, margin: 10 };

/** Cell is a switch and the hosts that are attached to it. */
export interface Cell {
	switch: ControllerSwitch;
	hosts: ControllerHost[];
	more: number; // hosts without room
	x: number;
	y: number;
	height: number;
	column: number;
	row: number; // of wrapped columns
}

/** Wire is a link of both directions, or of one. */
export interface Wire {
	key: string;
	from: Cell;
	to: Cell;
	both: boolean;
	path: string;
}

export interface Drawing {
	cells: Map<string, Cell>;
	wires: Wire[];
	loose: ControllerHost[]; // at a switch that is not known
	width: number;
	height: number;
}

/** groupBy is Map.groupBy, which browsers of 2023 lack. */
function groupBy<T>(all: T[], key: (t: T) => string): Map<string, T[]> {
	const groups = new Map<string, T[]>();
	for (const t of all) {
		const group = groups.get(key(t));
		if (group) group.push(t);
		else groups.set(key(t), [t]);
	}
	return groups;
}

type Graph = Map<string, string[]>;

/** graph has the neighbours of each switch, in the order of names. */
export function graph(t: ControllerTopology): Graph {
	const switches = sorted(t);
	const place = new Map(switches.map((s, i) => [s.id, i]));
	const sets = new Map(switches.map((s) => [s.id, new Set<string>()]));
	for (const l of t.links ?? []) {
		if (l.from.switch === l.to.switch || !sets.has(l.from.switch) || !sets.has(l.to.switch)) continue;
		sets.get(l.from.switch)?.add(l.to.switch);
		sets.get(l.to.switch)?.add(l.from.switch);
	}
	return new Map([...sets].map(([id, near]) => [id, [...near].sort((a, b) => (place.get(a) ?? 0) - (place.get(b) ?? 0))]));
}

const sorted = (t: ControllerTopology): ControllerSwitch[] => [...(t.switches ?? [])].sort((a, b) => compare(a.name, b.name) || compare(a.id, b.id));

/** layers are the switches by their distance from one. */
function layers(g: Graph, root: string): string[][] {
	const seen = new Set([root]);
	const found = [[root]];
	for (;;) {
		const next: string[] = [];
		for (const id of found.at(-1) ?? []) {
			for (const n of g.get(id) ?? []) {
				if (!seen.has(n)) {
					seen.add(n);
					next.push(n);
				}
			}
		}
		if (next.length === 0) return found;
		found.push(next);
	}
}

/** rootOf is where the drawing of a component begins: in the middle of a tree that branches, else at an end, if possible one with clients. */
function rootOf(g: Graph, component: string[], clients: Set<string>): string {
	const first = component[0] ?? "";
	const degree = (id: string) => g.get(id)?.length ?? 0;
	const edges = component.reduce((n, id) => n + degree(id), 0) / 2;
	const end = layers(g, first).at(-1)?.[0] ?? first;
	const fromEnd = layers(g, end);
	const other = fromEnd.at(-1)?.[0] ?? end;
	if (edges === component.length - 1 && component.some((id) => degree(id) > 2)) {
		return walk(g, end, other)[Math.floor((fromEnd.length - 1) / 2)] ?? first;
	}
	if (component.length === edges && component.every((id) => degree(id) === 2)) {
		return component.find((id) => clients.has(id)) ?? first; // a ring begins anywhere
	}
	if (clients.has(other) !== clients.has(end)) return clients.has(other) ? other : end;
	return component.indexOf(other) < component.indexOf(end) ? other : end;
}

/** walk is a shortest path between two switches, or nothing. */
export function walk(g: Graph, from: string, to: string): string[] {
	const before = new Map<string, string>([[from, ""]]);
	const queue = [from];
	for (let i = 0; i < queue.length && !before.has(to); i++) {
		const id = queue[i] ?? "";
		for (const n of g.get(id) ?? []) {
			if (!before.has(n)) {
				before.set(n, id);
				queue.push(n);
			}
		}
	}
	if (!before.has(to) || !g.has(from)) return [];
	const path: string[] = [];
	for (let id: string | undefined = to; id; id = before.get(id)) path.unshift(id);
	return path;
}

/** untangle orders the switches of each layer by their neighbours in the one before, which avoids most crossings. */
function untangle(g: Graph, all: string[][]): void {
	for (let i = 1; i < all.length; i++) {
		const place = new Map((all[i - 1] ?? []).map((id, at) => [id, at]));
		const middle = (id: string): number => {
			const at = (g.get(id) ?? []).flatMap((n) => place.get(n) ?? []);
			return at.reduce((a, b) => a + b, 0) / Math.max(1, at.length);
		};
		const weights = new Map((all[i] ?? []).map((id) => [id, middle(id)]));
		all[i]?.sort((a, b) => (weights.get(a) ?? 0) - (weights.get(b) ?? 0));
	}
}

const ranks: Record<string, number> = { client: 0, router: 1, surrogate: 2 };
export const hostName = (h: ControllerHost): string => h.name || h.addresses?.[0] || h.mac;

/** draw places everything in a width. Columns are layers; what does not fit goes on in the next row, in the opposite direction. */
export function draw(t: ControllerTopology, width: number): Drawing {
	const g = graph(t);
	const cells = cellsOf(t);
	const clients = new Set((t.hosts ?? []).filter((h) => h.kind === "client").map((h) => h.at.switch));
	const fit = Math.max(1, Math.floor((width - 2 * size.margin + size.gapX) / (size.width + size.gapX)));
	const drawing: Drawing = { cells, wires: [], loose: (t.hosts ?? []).filter((h) => !cells.has(h.at.switch)), width: 0, height: size.margin };
	const left = new Set(g.keys());
	let row = 0;
	for (const id of g.keys()) {
		if (!left.has(id)) continue;
		const component = layers(g, id).flat();
		for (const c of component) left.delete(c);
		const order = [...g.keys()].filter((k) => component.includes(k));
		const columns = layers(g, rootOf(g, order, clients));
		untangle(g, columns);
		for (let at = 0, back = false; at < columns.length; at += fit, back = !back) {
			placeRow(drawing, columns.slice(at, at + fit), back && columns.length > fit ? fit : 0, row++);
		}
	}
	drawing.height += size.margin - size.gapY;
	wire(drawing, t.links ?? []);
	return drawing;
}

function cellsOf(t: ControllerTopology): Map<string, Cell> {
	const at = groupBy(t.hosts ?? [], (h) => h.at.switch);
	return new Map(
		sorted(t).map((s) => {
			const all = (at.get(s.id) ?? []).sort((a, b) => (ranks[a.kind] ?? 3) - (ranks[b.kind] ?? 3) || compare(hostName(a), hostName(b)));
			const hosts = all.length > size.hosts ? all.slice(0, size.hosts - 1) : all;
			const more = all.length - hosts.length;
			const height = size.head + (hosts.length + (more > 0 ? 1 : 0)) * size.host;
			return [s.id, { switch: s, hosts, more, x: 0, y: 0, height, column: 0, row: 0 }];
		}),
	);
}

/** placeRow places columns next to each other; backwards is the number of columns of a row that runs to the left, else 0. */
function placeRow(d: Drawing, columns: string[][], backwards: number, row: number): void {
	// The middles of all columns are on one height; the hosts of the last switch hang below.
	const height = (ids: string[]) => ids.reduce((h, id) => h + (d.cells.get(id)?.height ?? 0) + size.gapY, 0);
	const middle = (ids: string[]) => (height(ids.slice(0, -1)) + size.head) / 2;
	const orders = columns.map((ids) => (backwards > 0 ? [...ids].reverse() : ids));
	const above = Math.max(...orders.map(middle));
	const below = Math.max(...orders.map((ids) => height(ids) - middle(ids)));
	orders.forEach((order, i) => {
		const column = backwards > 0 ? backwards - 1 - i : i;
		let y = d.height + above - middle(order);
		for (const id of order) {
			const c = d.cells.get(id);
			if (c === undefined) continue;
			Object.assign(c, { x: size.margin + column * (size.width + size.gapX), y, column, row });
			y += c.height + size.gapY;
			d.width = Math.max(d.width, c.x + size.width + size.margin);
		}
	});
	d.height += above + below;
}

export const wireKey = (a: string, b: string): string => (a < b ? `${a} ${b}` : `${b} ${a}`);

/** wire draws the links. */
function wire(d: Drawing, links: ControllerLink[]): void {
	const directions = groupBy(links, (l) => wireKey(l.from.switch, l.to.switch));
	for (const [key, both] of directions) {
		const first = both[0];
		const from = first && d.cells.get(first.from.switch);
		const to = first && d.cells.get(first.to.switch);
		if (!first || !from || !to || from === to) continue;
		d.wires.push({ key, from, to, both: both.some((l) => l.from.switch !== first.from.switch), path: route(d, from, to) });
	}
}

/** route is a line between two switches; around those that are between them in a column. */
export function route(d: Drawing, from: Cell, to: Cell): string {
	const [x1, y1, x2, y2] = [from.x + size.width / 2, from.y + size.head / 2, to.x + size.width / 2, to.y + size.head / 2];
	const between = [...d.cells.values()].some(
		(c) => c !== from && c !== to && c.x === from.x && c.y > Math.min(y1, y2) - size.head && c.y < Math.max(y1, y2),
	);
	if (from.x !== to.x) return `M${x1} ${y1}L${x2} ${y2}`;
	if (!between) return `M${x1 + size.width / 2 - 14} ${y1}V${y2}`; // beside the hosts of the upper one
	const side = from.column === 0 && from.row !== to.row ? -1 : 1;
	const edge = x1 + (side * size.width) / 2;
	const out = edge + side * (size.gapX / 2 - 4);
	return `M${edge} ${y1}C${out} ${y1} ${out} ${y1} ${out} ${(y1 + y2) / 2}S${out} ${y2} ${edge} ${y2}`;
}
