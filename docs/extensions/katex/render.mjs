// Typesets formulas: a JSON list of [TeX, display] on the standard input becomes a JSON list of HTML on the output.
import { readFileSync } from "node:fs";
import katex from "katex";

const formulas = JSON.parse(readFileSync(0, "utf8"));
const render = ([tex, displayMode]) => katex.renderToString(tex, { displayMode, throwOnError: true, strict: "error" });
process.stdout.write(JSON.stringify(formulas.map(render)));
