// Runs the request that standard input contains in the module, and prints the result.
// Argument: the module for Node.js.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [module] = process.argv.slice(2);
const { simulate } = createRequire(import.meta.url)(resolve(module));
try {
  process.stdout.write(simulate(readFileSync(0, "utf8"), () => {}));
} catch (complaints) {
  console.error(complaints);
  process.exitCode = 1;
}
