// Bundles the tests in test/ and runs them with Node's own runner.
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;
process.chdir(here);
const out = await mkdtemp(join(tmpdir(), "dashboard-"));
try {
	const files = (await readdir("test")).filter((f) => f.endsWith(".test.ts")).map((f) => join("test", f));
	await build({
		entryPoints: files,
		absWorkingDir: here,
		bundle: true,
		platform: "node",
		format: "esm",
		outdir: out,
		outExtension: { ".js": ".mjs" },
		logLevel: "warning",
	});
	const made = (await readdir(out)).map((f) => join(out, f));
	process.exitCode = spawnSync(process.execPath, ["--test", ...made], { stdio: "inherit" }).status ?? 1;
} finally {
	await rm(out, { recursive: true, force: true });
}
