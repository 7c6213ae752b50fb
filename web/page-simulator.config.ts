// Builds the worker of the page's simulator. Its glue fits one build of the module, so `cargo xtask page` makes both, and the
// repository contains neither.

import { resolve } from "node:path";
import { defineConfig } from "vite";

/** The folder in which `cargo xtask page` builds the module. */
const MODULE = resolve(import.meta.dirname, "../target/wasm/web");

export default defineConfig({
  resolve: { alias: { "tactus-module": resolve(MODULE, "tactus.js") } },
  build: {
    target: "es2022",
    outDir: resolve(import.meta.dirname, "../crates/page/assets"),
    emptyOutDir: false,
    reportCompressedSize: false,
    lib: {
      entry: resolve(import.meta.dirname, "src/simulator/worker.ts"),
      name: "worker",
      formats: ["iife"],
      fileName: () => "simulator.js",
    },
  },
});
