import assert from "node:assert/strict";
import { test } from "node:test";
import type { ControllerHandoff, ControllerSession, ControllerTopology } from "../src/api.ts";
import { nice, segmentsOf } from "../src/chart.tsx";
import { addressOf } from "../src/path.ts";
import { caps, empty, event, more, sample, whole } from "../src/store.ts";

const leg = { local: "", remote: "" };
const session = (i: number, state = "handed-off"): ControllerSession => ({
	client: `10.0.0.1:${i}`,
	service: "10.0.0.10:80",
	state,
	since: new Date(i * 1000).toISOString(),
	leg,
});
const handoff = (id: number, more: Partial<ControllerHandoff> = {}): ControllerHandoff => ({
	id,
	client: "",
	service: "",
	leg,
	surrogate: "se1",
	began: "",
	steps: null,
	...more,
});

test("the whole replaces a topic and leaves the others", () => {
	const m = empty();
	whole(m, "sessions", [session(1), session(2)], 1);
	whole(m, "handoffs", [handoff(3), handoff(1)], 1);
	whole(m, "sessions", [session(3)], 2);
	assert.deepEqual([...m.sessions.keys()], ["10.0.0.1:3 10.0.0.10:80"]);
	assert.deepEqual([...m.handoffs.keys()], [1, 3], "the newest last");
	whole(m, "sessions", null, 3);
	assert.equal(m.sessions.size, 0);
});

test("pages of sessions are put in the order of their beginning", () => {
	const m = empty();
	whole(m, "sessions", [session(9), session(5)], 1);
	more(m, [session(7), session(6)], 1);
	assert.deepEqual(
		[...m.sessions.values()].map((s) => s.client),
		["10.0.0.1:5", "10.0.0.1:6", "10.0.0.1:7", "10.0.0.1:9"],
	);
});

test("too many sessions: closed ones go first, and what else goes is counted", () => {
	const m = empty();
	for (let i = 0; i < caps.sessions; i++) event(m, "sessions", session(i, i === 50 ? "closed" : "handed-off"), 1);
	event(m, "sessions", session(100_001), 1);
	assert.equal(m.sessions.size, caps.sessions);
	assert.ok(!m.sessions.has("10.0.0.1:50 10.0.0.10:80") && m.sessions.has("10.0.0.1:0 10.0.0.10:80"));
	assert.equal(m.dropped.sessions, 0);
	event(m, "sessions", session(100_002), 1);
	assert.ok(!m.sessions.has("10.0.0.1:0 10.0.0.10:80"));
	assert.equal(m.dropped.sessions, 1);
});

test("a handoff is counted once, when it is over", () => {
	const m = empty();
	m.status = { kind: "open" };
	whole(m, "handoffs", [handoff(1, { took_ns: 5 })], 1);
	event(m, "handoffs", handoff(2), 2);
	event(m, "handoffs", handoff(2, { took_ns: 7 }), 3);
	event(m, "handoffs", handoff(2, { took_ns: 7 }), 4);
	event(m, "handoffs", handoff(3, { failure: "x" }), 4);
	sample(m, 1000);
	assert.deepEqual([m.samples[0]?.values.get("handoffs"), m.samples[0]?.values.get("failures")], [2, 1]);
	sample(m, 2000);
	assert.equal(m.samples[1]?.values.get("handoffs"), 0);
});

test("lost links are remembered for a minute, links of a switch that is gone are not", () => {
	const m = empty();
	const switches = ["a", "b"].map((id) => ({ id, name: id, core: false, role: "", up: true, since: "", flows: 0, ports: null }));
	const links = [{ from: { switch: "a", port: 1 }, to: { switch: "b", port: 1 }, since: "" }];
	const t = (more: Partial<ControllerTopology>): ControllerTopology => ({ switches, links, hosts: null, ...more });
	event(m, "topology", t({}), 0);
	event(m, "topology", t({ links: null }), 1000);
	assert.equal(m.lost.size, 1);
	event(m, "topology", t({ links: null }), 62_000);
	assert.equal(m.lost.size, 0);
	event(m, "topology", t({}), 70_000);
	event(m, "topology", t({ switches: switches.slice(0, 1), links: null }), 71_000);
	assert.equal(m.lost.size, 0);
});

test("what is not of the protocol changes nothing", () => {
	const m = empty();
	for (const v of [null, undefined, 3, "x"]) for (const topic of ["sessions", "rates", "nothing"]) event(m, topic, v, 1);
	event(m, "nothing", {}, 1);
	assert.deepEqual({ ...m, since: 0 }, empty());
});

test("a chart has a gap where there was no connection", () => {
	const at = (s: number, v: number) => ({ at: s * 1000, values: new Map([["x", v]]) });
	const { segments, most, last } = segmentsOf([at(1, 9), at(400, 1), at(401, 3), at(450, 2)], "x", 452_000);
	assert.deepEqual(
		segments.map((s) => s.map(([, v]) => v)),
		[
			[1, 3],
			[2, 2],
		],
	);
	assert.deepEqual([most, last], [3, 2]);
	assert.deepEqual([0, 0.3, 1, 1.1, 7, 10, 731].map(nice), [1, 0.5, 1, 2, 10, 10, 1000]);
});

test("addresses without their ports", () => {
	assert.deepEqual(["10.0.0.1:80", "[2001:db8::1]:80", ""].map(addressOf), ["10.0.0.1", "2001:db8::1", ""]);
});
