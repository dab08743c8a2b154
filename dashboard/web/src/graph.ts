// The network as a graph, and where its parts are drawn. Pure: the same topology gives the same drawing.

import type { ControllerHost, ControllerLink, ControllerSwitch, ControllerTopology } from "./api.ts";
import { compare } from "./format.ts";

export const size = { width: 164, host: 26, gapX: 44, hosts: 5, margin: 24 };

const roomy = { head: 46, gapY: 22 };
const dense = { head: 28, gapY: 10 };
const many = 30; // switches, from which on they are drawn densely

/** Cell is a switch and the hosts that are attached to it. */
export interface Cell {
	switch: ControllerSwitch;
	hosts: ControllerHost[];
	more: number; // hosts without room
	x: number;
	y: number;
	height: number; // with the hosts
	head: number; // of the switch alone
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
	width: number;
	height: number;
	gapY: number;
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
	const drawing: Drawing = { cells, wires: [], width: 0, height: size.margin, gapY: styleOf(t).gapY };
	const left = new Set(g.keys());
	let row = 0;
	for (const id of g.keys()) {
		if (!left.has(id)) continue;
		const component = layers(g, id).flat();
		for (const c of component) left.delete(c);
		const order = [...g.keys()].filter((k) => component.includes(k));
		const root = rootOf(g, order, clients);
		const columns = layers(g, root);
		if (columns.length <= fit && isTree(g, component)) {
			placeTree(drawing, g, root, row++);
			continue;
		}
		untangle(g, columns);
		for (let at = 0, back = false; at < columns.length; at += fit, back = !back) {
			placeRow(drawing, columns.slice(at, at + fit), back && columns.length > fit ? fit : 0, row++);
		}
	}
	drawing.height += size.margin - drawing.gapY;
	wire(drawing, t.links ?? []);
	return drawing;
}

const styleOf = (t: ControllerTopology) => ((t.switches?.length ?? 0) > many ? dense : roomy);

const isTree = (g: Graph, component: string[]): boolean =>
	component.reduce((n, id) => n + (g.get(id)?.length ?? 0), 0) === 2 * (component.length - 1);

/** placeTree places a tree from the left to the right. Every switch is in the middle of those behind it. */
function placeTree(d: Drawing, g: Graph, root: string, row: number): void {
	const placed: Cell[] = [];
	const place = (id: string, from: string, column: number): Cell | undefined => {
		const c = d.cells.get(id);
		if (c === undefined) return undefined;
		placed.push(c);
		const behind = (g.get(id) ?? []).filter((n) => n !== from).flatMap((n) => place(n, id, column + 1) ?? []);
		const [first, last] = [behind[0], behind.at(-1)];
		const y = first && last ? (first.y + last.y) / 2 : d.height;
		Object.assign(c, { x: size.margin + column * (size.width + size.gapX), y, column, row });
		if (!first) d.height = y + c.height + d.gapY;
		d.width = Math.max(d.width, c.x + size.width + size.margin);
		return c;
	};
	place(root, "", 0);
	separate(d, placed);
}

/** separate moves switches down that have so many hosts that they would cover the one below. */
function separate(d: Drawing, placed: Cell[]): void {
	const lowest = new Map<number, number>();
	for (const c of placed.sort((a, b) => a.y - b.y)) {
		c.y = Math.max(c.y, lowest.get(c.column) ?? 0);
		lowest.set(c.column, c.y + c.height + d.gapY);
		d.height = Math.max(d.height, c.y + c.height + d.gapY);
	}
}

function cellsOf(t: ControllerTopology): Map<string, Cell> {
	const at = groupBy(t.hosts ?? [], (h) => h.at.switch);
	return new Map(
		sorted(t).map((s) => {
			const all = (at.get(s.id) ?? []).sort((a, b) => (ranks[a.kind] ?? 3) - (ranks[b.kind] ?? 3) || compare(hostName(a), hostName(b)));
			const hosts = all.length > size.hosts ? all.slice(0, size.hosts - 1) : all;
			const more = all.length - hosts.length;
			const head = styleOf(t).head;
			const height = head + (hosts.length + (more > 0 ? 1 : 0)) * size.host;
			return [s.id, { switch: s, hosts, more, x: 0, y: 0, height, head, column: 0, row: 0 }];
		}),
	);
}

/** placeRow places columns next to each other; backwards is the number of columns of a row that runs to the left, else 0. */
function placeRow(d: Drawing, columns: string[][], backwards: number, row: number): void {
	// The middles of all columns are on one height; the hosts of the last switch hang below.
	const height = (ids: string[]) => ids.reduce((h, id) => h + (d.cells.get(id)?.height ?? 0) + d.gapY, 0);
	const middle = (ids: string[]) => (height(ids.slice(0, -1)) + (d.cells.get(ids[0] ?? "")?.head ?? 0)) / 2;
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
			y += c.height + d.gapY;
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

/** route is a line between two switches: from side to side, or down a column and around those that are between them. */
export function route(d: Drawing, from: Cell, to: Cell): string {
	const [y1, y2] = [from.y + from.head / 2, to.y + to.head / 2];
	if (from.x !== to.x) {
		const [a, b, ya, yb] = from.x < to.x ? [from, to, y1, y2] : [to, from, y2, y1];
		const [x1, x2] = [a.x + size.width, b.x];
		const bend = (x1 + x2) / 2;
		return ya === yb ? `M${x1} ${ya}H${x2}` : `M${x1} ${ya}C${bend} ${ya} ${bend} ${yb} ${x2} ${yb}`;
	}
	const [low, high] = [Math.min(y1, y2), Math.max(y1, y2)];
	const between = [...d.cells.values()].some((c) => c !== from && c !== to && c.x === from.x && c.y > low - from.head && c.y < high);
	if (!between) return `M${from.x + size.width - 14} ${y1}V${y2}`; // beside the hosts of the upper one
	const side = from.column === 0 && from.row !== to.row ? -1 : 1;
	const edge = from.x + (side < 0 ? 0 : size.width);
	const out = edge + side * (size.gapX / 2 - 4);
	return `M${edge} ${y1}C${out} ${y1} ${out} ${y1} ${out} ${(y1 + y2) / 2}S${out} ${y2} ${edge} ${y2}`;
}
