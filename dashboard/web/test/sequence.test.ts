import assert from "node:assert/strict";
import { test } from "node:test";
import { age, digits, plural, short, took } from "../src/format.ts";
import { arrange, meaning } from "../src/sequence.ts";

const step = (from: string, to: string, label = "SYN", kind = "packet") => ({ at_ns: 0, kind, from, to, label });

test("arrows are below each other and inside of the width", () => {
	for (const width of [240, 328, 900]) {
		const s = arrange(
			[step("client", "surrogate"), step("surrogate", "client", "x".repeat(500)), step("core", "core"), step("new", "client")],
			width,
		);
		assert.deepEqual(s.names.at(-1), "new");
		let y = s.top;
		for (const a of s.arrows) {
			assert.ok(a.y > y, "below the one before");
			y = a.y;
			for (const x of [a.x1, a.x2, a.labelX]) assert.ok(x >= 0 && x <= width, `${x} of ${width}`);
		}
		assert.ok(s.bottom > y);
	}
});

test("lanes are in the order of the network", () => {
	const paper = ["client", "access", "core", "controller", "router", "surrogate"];
	assert.deepEqual(arrange([], 900).names, paper);
	const far = arrange([step("controller", "router's switch"), step("switch", "controller")], 900).names;
	assert.deepEqual(far, ["client", "access", "switch", "core", "router's switch", "controller", "router", "surrogate"]);
});

test("no more lanes than a reader can follow", () => {
	const many = Array.from({ length: 50 }, (_, i) => step(`p${i}`, "client"));
	assert.equal(arrange(many, 900).names.length, 12);
});

test("steps have a meaning where the paper gives one", () => {
	assert.match(meaning(step("controller", "core", "flow mod 2", "flow-mod")), /surrogate → client/);
	assert.match(meaning(step("router", "controller", "setrequestsize 78", "call")), /size/);
	assert.match(meaning(step("controller", "core", "flow mods 6 and 7", "flow-mod")), /router → client; blocks request router → surrogate/);
	assert.match(meaning(step("controller", "core", "flow mod 2, with a copy of the first answer", "flow-mod")), /surrogate → client/);
	assert.equal(meaning(step("client", "router", "SYN")), "");
});

test("numbers and times are short", () => {
	assert.deepEqual([0, 950, 1225, 90_000, 1_344_999, 2e9].map(took), ["0 ns", "950 ns", "1.23 µs", "90 µs", "1.34 ms", "2 s"]);
	assert.deepEqual([0, 0.2, 12.44, 731.3, 18_204].map(digits), ["0", "0.20", "12.4", "731", "18,204"]);
	const now = Date.parse("2026-01-02T00:00:00Z");
	assert.deepEqual(
		["2026-01-01T23:59:18Z", "2026-01-01T22:58:00Z", "2025-12-30T20:00:00Z", "0001-01-01T00:00:00Z", ""].map((t) => age(t, now)),
		["42 s", "1 h 2 min", "2 d 4 h", "–", "–"],
	);
	assert.deepEqual([plural(1, "host"), plural(0, "host"), plural(2000, "switch", "switches")], ["1 host", "0 hosts", "2,000 switches"]);
	assert.equal(short("abcdef", 4), "abc…");
});
