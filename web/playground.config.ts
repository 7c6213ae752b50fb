// Builds the playground of the book: a script and a style sheet of the page, and a script with the simulator.
//
// Pages from a folder cannot fetch files, and cannot start a worker from a file. `simulator.js` therefore has the worker
// as text, and the module compressed in base64.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { type Plugin, type Rollup, build, defineConfig } from "vite";

/** The folder in which `cargo xtask site` builds the module. */
const MODULE = resolve(import.meta.dirname, "../target/wasm/web");
const OUTPUT = resolve(import.meta.dirname, "../target/playground");

/** Builds the script of the worker. */
async function worker(): Promise<string> {
  const built = await build({
    configFile: false,
    logLevel: "warn",
    resolve: { alias: { "tactus-module": resolve(MODULE, "tactus.js") } },
    build: {
      write: false,
      target: "es2022",
      lib: { entry: resolve(import.meta.dirname, "src/simulator/worker.ts"), name: "worker", formats: ["iife"] },
    },
  });
  const [{ output }] = built as [Rollup.RollupOutput];
  return output[0].code;
}

function simulator(): Plugin {
  return {
    name: "simulator",
    async generateBundle() {
      const module = gzipSync(readFileSync(resolve(MODULE, "tactus_bg.wasm")), { level: 9 }).toString("base64");
      const parts = JSON.stringify({ worker: await worker(), module });
      this.emitFile({ type: "asset", fileName: "simulator.js", source: `globalThis.tactusSimulator=${parts};\n` });
    },
  };
}

export default defineConfig({
  plugins: [simulator()],
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    target: "es2022",
    outDir: OUTPUT,
    emptyOutDir: true,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2000,
    lib: {
      entry: resolve(import.meta.dirname, "src/playground/main.tsx"),
      name: "playground",
      formats: ["iife"],
      fileName: () => "playground.js",
      cssFileName: "playground",
    },
  },
});
