// Loads modules of the page in Node.

import { resolve } from "node:path";
import { build } from "vite";

const SOURCES = resolve(import.meta.dirname, "../../src/page");

export async function load(name) {
  const lib = { entry: resolve(SOURCES, `${name}.ts`), formats: ["es"], fileName: name };
  const [{ output }] = await build({ configFile: false, logLevel: "silent", build: { write: false, target: "es2022", lib } });
  return import(`data:text/javascript;base64,${Buffer.from(output[0].code).toString("base64")}`);
}
