import assert from "node:assert/strict";
import { test } from "node:test";
import type { ControllerLink, ControllerTopology } from "../src/api.ts";
import { draw, graph, size, walk } from "../src/graph.ts";

const id = (i: number) => String(i).padStart(16, "0");

/** network has switches 0 … n-1 and links between pairs. */
function network(n: number, pairs: [number, number][]): ControllerTopology {
	const links: ControllerLink[] = pairs.flatMap(([a, b]) => {
		const [from, to] = [
			{ switch: id(a), port: 1 },
			{ switch: id(b), port: 2 },
		];
		return [
			{ from, to, since: "" },
			{ from: to, to: from, since: "" },
		];
	});
	const switches = Array.from({ length: n }, (_, i) => ({
		id: id(i),
		name: `s${i}`,
		core: i === n - 1,
		role: "master",
		up: true,
		since: "",
		flows: 0,
		ports: null,
	}));
	const host = (kind: string, at: number) => ({
		name: kind,
		kind,
		mac: `02:00:00:00:00:${at}${kind.length}`,
		addresses: [],
		at: { switch: id(at), port: 9 },
		seen: "",
	});
	return { switches, links, hosts: [host("client", 0), host("router", n - 1), host("surrogate", n - 1)] };
}

const chain = (n: number) => Array.from({ length: n - 1 }, (_, i): [number, number] => [i, i + 1]);
const ring = (n: number): [number, number][] => [...chain(n), [n - 1, 0]];
const tree = (n: number, fan: number) => Array.from({ length: n - 1 }, (_, i): [number, number] => [Math.floor(i / fan), i + 1]);

const shapes: [string, ControllerTopology][] = [
	["line of 3", network(3, chain(3))],
	["line of 100", network(100, chain(100))],
	["ring of 3", network(3, ring(3))],
	["ring of 100", network(100, ring(100))],
	["binary tree of 100", network(100, tree(100, 2))],
	["star of 40", network(40, tree(40, 39))],
	["tree of 100 with ten branches", network(100, tree(100, 10))],
	[
		"two islands",
		network(4, [
			[0, 1],
			[2, 3],
		]),
	],
	["no links", network(30, [])],
	[
		"full mesh",
		network(
			8,
			Array.from({ length: 64 }, (_, i): [number, number] => [i >> 3, i & 7]),
		),
	],
];

for (const [name, t] of shapes) {
	for (const width of [328, 800, 1280]) {
		test(`${name} in ${width} pixels: every switch has its place, inside of the width`, () => {
			const d = draw(t, width);
			const cells = [...d.cells.values()];
			assert.equal(cells.length, t.switches?.length);
			for (const a of cells) {
				assert.ok(a.x >= 0 && a.x + size.width <= width, `${a.switch.name} is outside at ${a.x}`);
				assert.ok(a.y >= 0 && a.y + a.height <= d.height, `${a.switch.name} is outside at ${a.y}`);
				for (const b of cells) {
					const apart = a === b || a.x + size.width <= b.x || b.x + size.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
					assert.ok(apart, `${a.switch.name} covers ${b.switch.name}`);
				}
			}
		});
	}
	test(`${name}: the order in which the controller lists things does not matter`, () => {
		const turned = { switches: [...(t.switches ?? [])].reverse(), links: [...(t.links ?? [])].reverse(), hosts: [...(t.hosts ?? [])].reverse() };
		const places = (d: ReturnType<typeof draw>) => [...d.cells].map(([k, c]) => [k, c.x, c.y]);
		assert.deepEqual(places(draw(turned, 800)), places(draw(t, 800)));
	});
}

test("a line begins where the clients are and keeps its order", () => {
	const t = network(5, chain(5));
	const turned = { ...t, hosts: (t.hosts ?? []).map((h) => ({ ...h, at: { ...h.at, switch: id(4 - Number(h.at.switch)) } })) };
	for (const [net, want] of [
		[t, ["s0", "s1", "s2", "s3", "s4"]],
		[turned, ["s4", "s3", "s2", "s1", "s0"]],
	] as const) {
		const cells = [...draw(net, 1280).cells.values()].sort((a, b) => a.x - b.x);
		assert.deepEqual(
			cells.map((c) => c.switch.name),
			want,
		);
		assert.equal(new Set(cells.map((c) => c.y)).size, 1, "on one height");
	}
});

test("neighbours of a long line stay neighbours when it is wrapped", () => {
	const d = draw(network(100, chain(100)), 800);
	for (let i = 1; i < 100; i++) {
		const [a, b] = [d.cells.get(id(i - 1)), d.cells.get(id(i))];
		assert.ok(a && b && Math.abs(a.column - b.column) + Math.abs(a.row - b.row) === 1, `s${i - 1} and s${i}`);
	}
});

test("a link is drawn once, and says whether it is seen in both directions", () => {
	const t = network(3, chain(3));
	t.links?.pop();
	const wires = draw(t, 800).wires;
	assert.deepEqual(
		wires.map((w) => w.both),
		[true, false],
	);
});

test("walk finds a shortest path, or says that there is none", () => {
	const g = graph(network(6, ring(6)));
	assert.deepEqual(walk(g, id(0), id(2)), [id(0), id(1), id(2)]);
	assert.deepEqual(walk(g, id(0), id(0)), [id(0)]);
	assert.deepEqual(walk(g, id(0), "elsewhere"), []);
	assert.deepEqual(walk(g, "elsewhere", id(0)), []);
	assert.deepEqual(
		walk(
			graph(
				network(4, [
					[0, 1],
					[2, 3],
				]),
			),
			id(0),
			id(3),
		),
		[],
	);
});
