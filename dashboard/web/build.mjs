// Builds ../built, or the folder that is the argument, from src. The same sources give the same bytes.
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { build } from "esbuild";

const here = new URL(".", import.meta.url).pathname;
process.chdir(here);
const out = process.argv[2] ?? "../built";
await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });

const result = await build({
	entryPoints: ["src/app.tsx", "src/style.css", "src/icon.svg"],
	absWorkingDir: here,
	bundle: true,
	minify: true,
	format: "esm",
	target: ["es2022", "chrome110", "firefox115", "safari16.4"],
	jsx: "automatic",
	jsxImportSource: "preact",
	loader: { ".svg": "copy" },
	entryNames: "[name]-[hash]",
	outdir: out,
	legalComments: "none", // licences.txt has them
	metafile: true,
	logLevel: "warning",
});

const named = Object.entries(result.metafile.outputs).map(([file, made]) => [
	basename(made.entryPoint ?? Object.keys(made.inputs)[0]),
	basename(file),
]);
let page = await readFile("src/index.html", "utf8");
for (const [source, file] of named) {
	page = page.replaceAll(`"${source}"`, `"${file}"`);
}
await writeFile(join(out, "index.html"), page);
const preact = await readFile("node_modules/preact/LICENSE", "utf8");
await writeFile(join(out, "licences.txt"), `This page contains Preact (https://preactjs.com), under this licence:\n\n${preact}`);
