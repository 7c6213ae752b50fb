// Builds the page of the service. The names of its files are fixed, so that the crate `page` can have them in the program.

import { resolve } from "node:path";
import { defineConfig } from "vite";

export default defineConfig({
  root: resolve(import.meta.dirname, "src/page"),
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    outDir: resolve(import.meta.dirname, "../crates/page/assets"),
    // The folder also has files of others, such as the simulator.
    emptyOutDir: false,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      input: resolve(import.meta.dirname, "src/page/index.html"),
      output: { entryFileNames: "page.js", assetFileNames: "page.[ext]", inlineDynamicImports: true },
    },
  },
});
