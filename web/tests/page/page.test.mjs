// The page in a real browser, with a real service and its core. Needs root, and the built page.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { servePage } from "../serve-page.mjs";
import { Service, browser, open, sleep, until } from "./service.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const VMS = ["vm-a", "vm-b", "vm-hog"];
let service, chromium, web, context, page;

before(async () => {
  service = await Service.start();
  service.vm("vm-a");
  service.vm("vm-b");
  service.vm("vm-hog", { isHog: true });
  // The host may have other VMs.
  await until("the VMs are found", () => VMS.every((name) => service.listed()?.some((vm) => vm.name === name)));
  web = await servePage({ socket: service.socket });
  chromium = await browser();
});

after(async () => {
  await chromium?.close();
  await web?.end();
  await service?.end();
});

beforeEach(async () => {
  for (const name of VMS) service.tactus("unset", name);
  context = await chromium.newContext({ viewport: { width: 1280, height: 800 } });
  page = await open(context, web.url);
  await page.waitForSelector('tr[data-id="vm-a"]');
});

afterEach(async () => {
  const { errors } = page;
  await context.close();
  assert.deepEqual(errors, []);
});

const edit = (name, on = page) => on.click(`tr[data-id="${name}"] .open`);
const slice = (name) => service.desired(name)?.promise?.slice_ns;
const text = (selector, on = page) => on.textContent(selector);
const verdict = (word, on = page) => until(word, async () => (await text(".verdict", on)).includes(word));
const change = (name, ...args) => service.tactus("set", name, ...args);

/** Gives a VM a promise, and waits for its row: a draft from before the change would be refused. */
async function give(name, slice, period, { on = page, also = [] } = {}) {
  change(name, "--slice", slice, "--period", period, ...also);
  await until("the row has it", async () => (await text(`tr[data-id="${name}"] .asked`, on)) === `${slice} in ${period}`);
}

test("a slider previews, Enter applies, and Esc reverts", async () => {
  await give("vm-a", "2ms", "10ms");
  await edit("vm-a");
  const slider = page.getByLabel("Slice on a logarithmic scale");
  await slider.focus();
  for (let press = 0; press < 40; press += 1) await page.keyboard.press("ArrowRight");
  await verdict("The draft would be in force");
  const typed = await page.inputValue("#slice");
  assert.notEqual(typed, "2ms");
  assert.equal(await slider.getAttribute("aria-valuetext"), typed);
  assert.equal(slice("vm-a"), 2e6, "a preview changes nothing");
  await page.keyboard.press("Escape");
  assert.equal(await page.inputValue("#slice"), "2ms");
  await page.fill("#slice", "3ms");
  await page.keyboard.press("Enter");
  await verdict("Applied to vm-a");
  assert.equal(slice("vm-a"), 3e6);
  await until("the row has it", async () => (await text('tr[data-id="vm-a"] .asked')) === "3ms in 10ms");
});

test("a preview predicts what a promise gives, and changes nothing", async () => {
  await give("vm-hog", "1ms", "20ms");
  await edit("vm-hog");
  await page.fill("#slice", "6ms");
  const cell = (row) => page.locator(".comparison .pairs tbody tr").nth(row).locator("td").first().innerText();
  await until("a share is predicted", async () => parseFloat(await cell(0).catch(() => "")) >= 30);
  assert.match(await cell(1), /^0 of \d+$/, "no period is missed");
  assert.equal(slice("vm-hog"), 1e6);
});

test("a typed value without a unit has a reason and a remedy, and is not sent", async () => {
  await edit("vm-a");
  await page.fill("#slice", "3");
  await page.fill("#period", "10ms");
  assert.match(await text("#slice-mistake"), /3 has no unit: add ns, us, ms, s or min/);
  assert.equal(await page.getAttribute("#slice", "aria-invalid"), "true");
  await page.keyboard.press("Enter");
  await sleep(300);
  assert.equal(slice("vm-a"), undefined);
});

test("the remedy of a refusal is taken by a click", async () => {
  await edit("vm-a");
  await page.fill("#period", "10ms");
  await page.fill("#slice", "9.5ms");
  await verdict("vm-a would be refused");
  await page.getByRole("button", { name: "Apply with slice 9ms" }).click();
  await verdict("Applied to vm-a");
  assert.equal(slice("vm-a"), 9e6);
});

test("the end of another promise makes room by a click", async () => {
  for (const name of ["vm-a", "vm-hog"]) await give(name, "8ms", "10ms");
  await edit("vm-b");
  await page.fill("#period", "10ms");
  await page.fill("#slice", "8ms");
  await verdict("vm-b would be refused");
  await page.getByRole("button", { name: "End the promise to vm-a and apply" }).click();
  await verdict("Applied to vm-b");
  assert.deepEqual([slice("vm-a"), slice("vm-b")], [undefined, 8e6]);
  await verdict("The promise to vm-a has ended");
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await until("both changes are undone", () => slice("vm-a") === 8e6 && slice("vm-b") === undefined);
  await verdict("Undone for vm-b");
});

test("several VMs are edited at once, and fields that were not touched stay", async () => {
  await give("vm-a", "1ms", "10ms");
  await give("vm-b", "2ms", "20ms", { also: ["--weight", "70"] });
  await page.getByLabel("Select vm-a").check();
  await page.getByLabel("Select vm-b").check();
  assert.equal(await page.getAttribute("#slice", "placeholder"), "differ");
  await page.fill("#slice", "3ms");
  await verdict("Each of the 2 changes fits on its own");
  await page.getByRole("button", { name: "Apply", exact: true }).click();
  await verdict("Applied to vm-a");
  const both = ["vm-a", "vm-b"].map((name) => service.desired(name));
  assert.deepEqual(both.map(({ promise, weight }) => [promise.slice_ns, promise.period_ns, weight]), [
    [3e6, 10e6, undefined],
    [3e6, 20e6, 70],
  ]);
});

test("of two browsers that change one VM, the second is told, and can keep its draft", async () => {
  await give("vm-a", "2ms", "10ms");
  const other = await chromium.newContext();
  const second = await open(other, web.url);
  await edit("vm-a");
  await edit("vm-a", second);
  await second.fill("#slice", "4ms");
  await verdict("The draft would be in force", second);
  await page.fill("#period", "20ms");
  await page.keyboard.press("Enter");
  await verdict("Applied to vm-a");
  const told = second.getByText("vm-a was changed by another client: now 2ms in 20ms.");
  await told.waitFor();
  await second.getByRole("button", { name: "Apply", exact: true }).click();
  await verdict("another client has changed it", second);
  await second.getByRole("button", { name: "Keep the draft" }).click();
  await second.getByRole("button", { name: "Apply", exact: true }).click();
  await verdict("Applied to vm-a", second);
  assert.deepEqual(service.desired("vm-a").promise.slice_ns, 4e6);
  assert.deepEqual(service.desired("vm-a").promise.period_ns, 20e6);
  await other.close();
});

test("with the switch Live, each input changes the VM, at most ten times a second", async () => {
  await give("vm-a", "1ms", "10ms");
  await edit("vm-a");
  await page.getByRole("switch", { name: "Live" }).check();
  await page.getByLabel("Slice on a logarithmic scale").focus();
  for (let press = 0; press < 30; press += 1) {
    await page.keyboard.press("ArrowRight");
    await sleep(20);
  }
  const typed = await page.inputValue("#slice");
  await until("the last input is in force", () => `${slice("vm-a") / 1e6}ms` === typed);
  const sent = await page.evaluate(() =>
    performance.getEntriesByType("resource").flatMap(({ name, startTime }) => (name.endsWith("/desired") ? startTime : [])),
  );
  const pauses = sent.slice(1).map((at, before) => at - sent[before]);
  assert.ok(sent.length >= 2 && Math.min(...pauses) >= 90, `${sent.length} changes with pauses of ${pauses}`);
});

test("the stick of a gamepad moves the slice, and the gamepad rumbles when the promise is impossible", async () => {
  await give("vm-a", "2ms", "10ms");
  const steered = await context.newPage();
  await steered.addInitScript(() => {
    window.rumbles = 0;
    const vibrationActuator = { playEffect: async () => void (window.rumbles += 1) };
    window.pad = { axes: [0, 0], buttons: [{ pressed: false }, { pressed: false }], vibrationActuator };
    navigator.getGamepads = () => [window.pad, null];
  });
  await steered.goto(web.url);
  await steered.waitForSelector('tr[data-id="vm-a"]');
  await edit("vm-a", steered);
  const stick = (x, y) => steered.evaluate(([x, y]) => void (window.pad.axes = [x, y]), [x, y]);
  await stick(0, -0.5);
  await until("the slice is longer", async () => parseFloat(await steered.inputValue("#slice")) > 2.2);
  await stick(0, 0);
  await sleep(400);
  assert.equal(await steered.evaluate(() => window.rumbles), 0);
  await stick(0, -1);
  await until("the gamepad rumbles", () => steered.evaluate(() => window.rumbles > 0));
  await stick(0.8, 0);
  await until("the period is longer", async () => parseFloat(await steered.inputValue("#period")) > 12);
  await stick(0, 0);
  assert.equal(slice("vm-a"), 2e6, "the stick only previews");
  await steered.evaluate(() => void (window.pad.buttons[1].pressed = true));
  await until("the draft is reverted", async () => (await steered.inputValue("#slice")) === "2ms");
});

test("an applied draft is undone beside its answer, and the end of a promise is said", async () => {
  await give("vm-b", "1ms", "10ms");
  await edit("vm-b");
  await page.fill("#slice", "2ms");
  await page.keyboard.press("Enter");
  await verdict("Applied to vm-b");
  assert.equal(slice("vm-b"), 2e6);
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await until("the change is undone", () => slice("vm-b") === 1e6);
  await page.getByRole("button", { name: "End the promise" }).click();
  await verdict("The promise would end");
  assert.equal(slice("vm-b"), 1e6);
});

test("a change is undone in the list of changes", async () => {
  // The list has earlier changes of this VM, with other slices.
  change("vm-b", "--slice", "1.1ms", "--period", "10ms");
  change("vm-b", "--slice", "1.2ms", "--period", "10ms");
  await page.keyboard.press("5");
  const line = page.locator("tr", { hasText: "1.1ms in 10ms → 1.2ms in 10ms" });
  await line.getByRole("button", { name: "Undo the change of vm-b" }).click();
  await until("the change is undone", () => slice("vm-b") === 1.1e6);
});

test("a dropped connection shows a banner, and goes on where it was", async () => {
  const own = await servePage({ socket: service.socket });
  await page.goto(own.url);
  await page.waitForSelector('tr[data-id="vm-a"]');
  await own.end();
  await page.waitForSelector(".banner.bad");
  assert.match(await text(".banner.bad"), /The connection to the service was lost at \d\d:\d\d:\d\d/);
  change("vm-a", "--slice", "7ms", "--period", "70ms");
  const again = await servePage({ socket: service.socket, port: own.port });
  await page.waitForSelector(".banner.bad", { state: "detached" });
  await until("the row is new", async () => (await text('tr[data-id="vm-a"] .asked')) === "7ms in 70ms");
  await page.keyboard.press("5");
  await page.getByText("nothing → 7ms in 70ms").first().waitFor();
  assert.equal(await page.getByText("Some changes are missing").count(), 0);
  await again.end();
});

test("the tabs of a browser share one stream, and another tab continues it", async () => {
  let streams = 0;
  const counted = await servePage({ socket: service.socket, answer: ({ url }) => void (streams += url.startsWith("/v1/live")) });
  const first = await open(context, counted.url);
  await first.waitForSelector('tr[data-id="vm-a"]');
  const second = await open(context, counted.url);
  await second.waitForSelector('tr[data-id="vm-a"]');
  assert.equal(streams, 1);
  await first.close();
  await until("the second tab connects", () => streams >= 2);
  change("vm-a", "--weight", "33");
  await until("the second tab follows", async () => (await text('tr[data-id="vm-a"] .weight', second)) === "33");
  await counted.end();
});

test("a client with the role view sees no control", async () => {
  await context.route("**/v1/caller", (route) => route.fulfill({ json: { name: "cert:reader", role: "view" } }));
  const reader = await open(context, `${web.url}?vm=vm-a`);
  await reader.getByText("Your role only reads.").waitFor();
  assert.equal(await reader.locator("form:visible, #slice, .vms input[type=checkbox], [role=switch]").count(), 0);
  await reader.keyboard.press("5");
  await reader.waitForSelector(".changes tbody tr");
  assert.equal(await reader.getByRole("button", { name: /undo/i }).count(), 0);
});

test("search, order and view are in the address, and Back returns to the view before", async () => {
  await page.keyboard.press("/");
  await page.keyboard.type("vm-h");
  await until("one row", async () => (await page.locator("tbody tr").count()) === 1);
  await page.getByRole("button", { name: "Missed" }).click();
  await page.waitForURL(/q=vm-h&sort=-missed/);
  await page.getByRole("link", { name: "CPUs" }).click();
  await page.waitForURL(/view=cpus/);
  await page.goBack();
  await page.waitForSelector('tr[data-id="vm-hog"]');
  await page.reload();
  await page.waitForSelector('tr[data-id="vm-hog"]');
  assert.equal(await page.locator("tbody tr").count(), 1);
  assert.equal(await page.locator("th.missed").getAttribute("aria-sort"), "descending");
});

test("the timeline shows the thread of a VM, and zooms by keys", async () => {
  await page.keyboard.press("4");
  await page.getByRole("rowheader", { name: /vm-hog/ }).waitFor();
  await page.locator("canvas").focus();
  for (let press = 0; press < 3; press += 1) await page.keyboard.press("+");
  assert.equal(await page.getByRole("button", { name: "Record" }).count(), 1);
  const { width, height } = await page.locator("canvas").boundingBox();
  const hover = async (x, y) => {
    await page.locator("canvas").hover({ position: { x, y } });
    return (await page.locator(".tip").count()) > 0;
  };
  // A CPU may be idle, and between two recordings is a gap.
  await until("a thread is under the pointer", async () => {
    for (let x = 60; x < width - 10; x += 40) if ((await hover(x, 30)) || (await hover(x, height - 10))) return true;
    return false;
  });
  assert.match(await text(".tip"), /on CPU \d+ for/);
});

test("all views have no serious finding of axe in both themes", async () => {
  change("vm-hog", "--slice", "2ms", "--period", "10ms");
  for (const theme of ["light", "dark"]) {
    await page.getByLabel("Theme").selectOption(theme);
    for (const view of ["vms", "cpus", "history", "timeline", "changes"]) {
      await page.goto(`${web.url}?view=${view}&vm=vm-hog`);
      await page.waitForSelector(`.view-${view} :is(tbody tr, .cpu, .u-over)`);
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => window.axe.run());
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      const found = serious.map(({ id, nodes }) => `${theme} ${view} ${id}: ${nodes.map(({ html }) => html).join(" ")}`);
      assert.deepEqual(found, []);
    }
  }
});

test("on a phone, no view is wider than the screen", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  for (const view of ["vms", "cpus", "history", "timeline", "changes"]) {
    for (const vm of ["", "&vm=vm-hog"]) {
      await page.goto(`${web.url}?view=${view}${vm}`);
      await page.waitForSelector(`.view-${view} :is(tbody tr, .cpu, .u-over, .nothing, .editor)`, { state: "attached" });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 390, `${view}${vm}: ${wide}`);
    }
  }
});
