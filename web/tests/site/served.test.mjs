// The simulator on a page of a server, whose policy allows scripts and workers of this server only.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { resolve } from "node:path";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import { build } from "vite";
import { launch } from "./browser.mjs";

const TARGET = resolve(import.meta.dirname, "../../../target");
const POLICY = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'";

/** Returns the script of the page. */
async function script() {
  const entry = resolve(import.meta.dirname, "served.ts");
  const lib = { entry, name: "served", formats: ["iife"] };
  const [{ output }] = await build({ configFile: false, logLevel: "warn", build: { write: false, target: "es2022", lib } });
  return output[0].code;
}

/** Returns the script of the worker, which the playground has as text. */
async function worker() {
  const context = {};
  runInNewContext(await readFile(resolve(TARGET, "playground/simulator.js"), "utf8"), context);
  return context.tactusSimulator.worker;
}

test("the simulator runs under the policy of a server", async () => {
  const files = {
    "/": ["text/html", "<!doctype html><title>served</title><script src='/page.js'></script>"],
    "/page.js": ["text/javascript", await script()],
    "/worker.js": ["text/javascript", await worker()],
    "/tactus.wasm": ["application/wasm", await readFile(resolve(TARGET, "wasm/web/tactus_bg.wasm"))],
  };
  const server = createServer(({ url }, response) => {
    const [type, body] = files[url] ?? ["text/plain", ""];
    response.writeHead(200, { "content-type": type, "content-security-policy": POLICY }).end(body);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const browser = await launch();
  try {
    const page = await browser.newPage();
    const errors = [];
    page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    const used = await page.evaluate(() => globalThis.use());
    assert.ok(used.policies > 20);
    assert.deepEqual({ ...used, policies: 0 }, { runs: 2, policies: 0, isCancelled: true, refused: "scenario.toml:1:1" });
    assert.deepEqual(errors, []);
  } finally {
    await browser.close();
    server.close();
  }
});
