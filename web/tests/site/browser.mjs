// Chromium with the built site, opened from its folder.

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const SITE = resolve(import.meta.dirname, "../../../target/site");

/** Returns the address of a page of the site. */
export const address = (page) => pathToFileURL(resolve(SITE, page.split("#")[0])).href + (page.match(/#.*/)?.[0] ?? "");

/** Starts the browser. */
export const launch = () => chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });

const contexts = [];

/** Closes the pages of a test. */
export async function close() {
  for (const context of contexts.splice(0)) await context.close();
}

/**
 * Opens a page of the site. Returns the page, the requests to anything but files and the page itself, and the errors of
 * its scripts.
 */
export async function open(browser, path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  contexts.push(context);
  const page = await context.newPage();
  const [foreign, errors] = [[], []];
  page.on("request", (request) => /^(file|blob|data):/.test(request.url()) || foreign.push(request.url()));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await page.addInitScript(options.script ?? (() => {}));
  await page.goto(address(path));
  return { page, foreign, errors };
}

/** Returns the serious findings of axe about a page, each with its first element. */
export async function barriers(page) {
  await page.addScriptTag({ path: resolve(import.meta.dirname, "../../node_modules/axe-core/axe.min.js") });
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.length}, ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary}`);
}
