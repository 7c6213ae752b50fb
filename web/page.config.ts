// Builds the page of the service: files with fixed names, which the program contains.

import { copyFileSync } from "node:fs";
import { resolve } from "node:path";
import { defineConfig } from "vite";

const OUTPUT = resolve(import.meta.dirname, "../crates/page/assets");
const SOURCES = resolve(import.meta.dirname, "src/page");

export default defineConfig({
  plugins: [{ name: "index", closeBundle: () => copyFileSync(resolve(SOURCES, "index.html"), resolve(OUTPUT, "index.html")) }],
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    target: "es2022",
    outDir: OUTPUT,
    // The simulator is made by another step.
    emptyOutDir: false,
    reportCompressedSize: false,
    lib: {
      entry: resolve(SOURCES, "main.tsx"),
      name: "page",
      formats: ["iife"],
      fileName: () => "page.js",
      cssFileName: "page",
    },
  },
});
