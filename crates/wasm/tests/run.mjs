// Runs the request of each line of standard input in the module, and prints a line with each result.
// Argument: the module for Node.js.

import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const [module] = process.argv.slice(2);
const { simulate } = createRequire(import.meta.url)(resolve(module));
try {
  for await (const request of createInterface({ input: process.stdin })) {
    process.stdout.write(simulate(request, () => {}) + "\n");
  }
} catch (complaints) {
  console.error(complaints);
  process.exitCode = 1;
}
