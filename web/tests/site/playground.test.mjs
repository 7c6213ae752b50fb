// The playground, opened from its folder.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { barriers, close, launch, open } from "./browser.mjs";

let browser;
before(async () => (browser = await launch()));
after(() => browser.close());
afterEach(close);

const PAGE = "playground.html";
/** Returns the timelines once the page shows this number of them and no run is in progress. */
async function timelines(page, count) {
  await page.waitForFunction(
    (count) =>
      document.querySelectorAll(".timeline").length === count &&
      document.querySelector(".timelines").getAttribute("aria-busy") === "false",
    count,
  );
  return page.locator(".timeline");
}
const pictures = (all) => all.locator(".drawing > div").evaluateAll((drawings) => drawings.map(({ innerHTML }) => innerHTML));
const policies = (all) => all.evaluateAll((figures) => figures.map(({ dataset }) => dataset.policy));
const shown = (page) => page.locator(".controls .note").textContent();

test("one scenario is shown under three schedulers, with a table", async () => {
  const { page, foreign, errors } = await open(browser, PAGE);
  const all = await timelines(page, 3);
  assert.deepEqual(await policies(all), ["cfs", "credit", "edf"]);
  assert.equal(new Set(await pictures(all)).size, 3);
  const row = page.locator("table.results tr", { hasText: "interactive" });
  assert.match(await row.textContent(), /199\/200.*199\/200.*0\/200/);
  assert.deepEqual([foreign, errors], [[], []]);
});

test("timelines follow the policies and the knobs", async () => {
  const { page, errors } = await open(browser, `${PAGE}#scenario=weights&policies=eevdf`);
  const [before] = await pictures(await timelines(page, 1));
  await page.locator("summary", { hasText: "Knobs" }).click();
  await page.getByRole("textbox", { name: /^base-slice/ }).fill("20ms");
  await page.waitForFunction((before) => document.querySelector(".drawing > div").innerHTML !== before, before);
  await page.getByRole("combobox", { name: "Add a policy" }).selectOption("round-robin");
  assert.deepEqual(await policies(await timelines(page, 2)), ["eevdf", "round-robin"]);
  await page.getByRole("button", { name: "Remove eevdf" }).click();
  assert.deepEqual(await policies(await timelines(page, 1)), ["round-robin"]);
  assert.deepEqual(errors, []);
});

test("an error underlines its line, with reason and remedy", async () => {
  const { page, errors } = await open(browser, PAGE);
  await timelines(page, 3);
  await page.locator(".cm-line", { hasText: "cpus = 2" }).click();
  await page.keyboard.press("Home");
  await page.keyboard.type("s");
  const underlined = page.locator(".cm-lintRange-error");
  assert.equal(await underlined.first().textContent(), "scpus");
  assert.match(await page.locator(".cm-line", { has: underlined }).first().textContent(), /^scpus = 2/);
  const list = page.getByRole("list", { name: "Errors" });
  assert.match(await list.textContent(), /line 8.*scpus.*help:.*cpus/s);
  await page.keyboard.press("Backspace");
  await list.waitFor({ state: "detached" });
  assert.equal(await underlined.count(), 0);
  assert.deepEqual(errors, []);
});

test("a drag and keys select a part of the run, for all policies alike", async () => {
  const { page, errors } = await open(browser, PAGE);
  const all = await timelines(page, 3);
  const before = await shown(page);
  await all.first().scrollIntoViewIfNeeded();
  const box = await all.first().locator(".drawing").boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 100);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 100, { steps: 3 });
  await page.locator(".marks .selected").nth(2).waitFor();
  await page.mouse.up();
  const changed = (text) => document.querySelector(".controls .note").textContent !== text;
  await page.waitForFunction(changed, before);
  const zoomed = await shown(page);
  const axes = await all.locator(".drawing > div").evaluateAll((drawings) =>
    drawings.map((drawing) =>
      [...drawing.querySelectorAll("text[font-size='11'][text-anchor='middle']")].map(
        (tick) => `${tick.textContent} at ${tick.getAttribute("x")}`,
      ),
    ),
  );
  assert.ok(axes[0].length > 2);
  assert.deepEqual(axes, [axes[0], axes[0], axes[0]]);
  await page.locator(".timelines").focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(changed, zoomed);
  await page.keyboard.press("0");
  await page.waitForFunction((text) => document.querySelector(".controls .note").textContent === text, before);
  assert.match(page.url(), /playground\.html/);
  assert.deepEqual(errors, []);
});

test("a link has the whole state", async () => {
  const { page } = await open(browser, PAGE);
  await timelines(page, 3);
  await page.locator(".cm-line", { hasText: "cpus = 2" }).click();
  await page.keyboard.press("End");
  await page.keyboard.type(" # two, größer 😀");
  await page.getByRole("textbox", { name: "Length" }).fill("300ms");
  await page.getByRole("textbox", { name: "Seed" }).fill("7");
  await page.getByRole("button", { name: "Remove cfs" }).click();
  await page.getByRole("button", { name: "Copy link" }).click();
  await page.waitForURL(/#s=/);
  await timelines(page, 2);
  const other = await open(browser, PAGE + new URL(page.url()).hash);
  const all = await timelines(other.page, 2);
  assert.deepEqual(await policies(all), ["credit", "edf"]);
  assert.match(await shown(other.page), /of 300ms$/);
  assert.ok(await other.page.locator(".cm-line", { hasText: "cpus = 2 # two, größer 😀" }).isVisible());
  assert.equal(await other.page.getByRole("textbox", { name: "Seed" }).inputValue(), "7");
  assert.deepEqual(await pictures(all), await pictures(page.locator(".timeline")));
});

test("an essay opens its scenario under its policy", async () => {
  const { page, foreign, errors } = await open(browser, "docs/policies/eevdf.html");
  await page.getByRole("link", { name: "Change this scenario in the playground" }).click();
  assert.deepEqual(await policies(await timelines(page, 1)), ["eevdf"]);
  assert.match(await page.locator(".cm-content").textContent(), /a team, three batches and a player/);
  assert.deepEqual([foreign, errors], [[], []]);
});

test("a long run has progress and is cancelled", async () => {
  const { page, errors } = await open(browser, PAGE);
  await timelines(page, 3);
  await page.getByRole("textbox", { name: "Length" }).fill("100000s");
  await page.waitForFunction(() => document.querySelector("progress")?.value > 0);
  await page.getByRole("button", { name: "Cancel" }).click();
  await timelines(page, 3);
  await page.getByRole("textbox", { name: "Length" }).fill("100ms");
  await page.waitForFunction(() => document.querySelector(".controls .note").textContent.endsWith("of 100ms"));
  assert.deepEqual(errors, []);
});

/** Keeps the workers, and makes the next run a message that the module cannot read. */
function spoilable() {
  globalThis.workers = [];
  globalThis.Worker = class extends Worker {
    constructor(...given) {
      super(...given);
      globalThis.workers.push(this);
    }

    postMessage(call) {
      super.postMessage(globalThis.spoils && call.run ? { ...call, run: 7 } : call);
    }
  };
}

test("a worker that trapped is replaced, and the error is reported once", async () => {
  const { page } = await open(browser, PAGE, { script: spoilable });
  await timelines(page, 3);
  await page.evaluate(() => (globalThis.spoils = true));
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const failure = page.locator(".failure");
  await failure.waitFor();
  assert.equal(await failure.count(), 1);
  const saved = page.waitForEvent("download");
  await failure.getByRole("button").click();
  assert.equal((await saved).suggestedFilename(), "request.json");
  await page.evaluate(() => (globalThis.spoils = false));
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await failure.waitFor({ state: "detached" });
  await timelines(page, 3);
  assert.equal(await page.evaluate(() => globalThis.workers.length), 2);
});

test("picture, report and trace are saved as files", async () => {
  const { page, errors } = await open(browser, PAGE);
  await timelines(page, 3);
  const buttons = [/^Picture of cfs/, /^Report/, /^Trace of edf/];
  const names = [];
  for (const name of buttons) {
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name }).click();
    names.push((await saved).suggestedFilename());
  }
  assert.deepEqual(names, ["demo.cfs.svg", "demo.json", "demo.edf.trace"]);
  assert.deepEqual(errors, []);
});

for (const colorScheme of ["light", "dark"]) {
  for (const viewport of [{ width: 1280, height: 800 }, { width: 390, height: 844 }]) {
    test(`no serious barrier at ${viewport.width} pixels in the ${colorScheme} theme`, async () => {
      const { page } = await open(browser, PAGE, { colorScheme, viewport });
      await timelines(page, 3);
      await page.locator("summary", { hasText: "Knobs" }).first().click();
      assert.deepEqual(await barriers(page), []);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
    });
  }
}
