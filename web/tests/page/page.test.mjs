// The page in a real browser, with a real service and its core.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { Service, until } from "./service.mjs";

let service;
before(async () => {
  service = await Service.begin();
});
after(async () => {
  await service?.end();
});

// Makes a process a VM with something desired, and opens its editor.
async function edit(page, id) {
  await service.tactus("set", id, "--slice", "1ms", "--period", "20ms");
  await page.click(`tr[data-vm^="${id}"] .link`);
  await page.waitForSelector("form.editor");
}

const text = (page, selector) => page.locator(selector).first().innerText();

test("a slider previews, and changes nothing before it is applied", async () => {
  const id = service.hog();
  const page = await service.browse();
  await edit(page, id);
  const slider = page.locator('input[type=range][aria-label^="slice"]');
  await slider.focus();
  for (let step = 0; step < 30; step++) await page.keyboard.press("ArrowRight");
  await page.waitForSelector("text=The service would accept this change.");
  const typed = await page.inputValue("#slice-text");
  assert.notEqual(typed, "1ms");
  assert.equal((await service.vm(id)).desired.promise.slice_ns, 1_000_000, "a preview changes nothing");
  // Esc reverts, and typed values are applied by Enter.
  await page.keyboard.press("Escape");
  assert.equal(await page.inputValue("#slice-text"), "1ms");
  await page.fill("#slice-text", "2 ms");
  await page.fill("#period-text", "10ms");
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=The change is in force.");
  const { promise } = (await service.vm(id)).desired;
  assert.deepEqual([promise.slice_ns, promise.period_ns], [2_000_000, 10_000_000]);
  await until("the row shows the promise that is kept", async () => {
    const row = await text(page, `tr[data-vm^="${id}"]`);
    return row.includes("2ms every 10ms") && row.includes("kept") && row.includes("20.0 %");
  });
  await page.fill("#slice-text", "2");
  await page.waitForSelector("text=the time needs a unit");
  assert.deepEqual(page.errors, []);
  await page.close();
  await service.tactus("unset", id);
});

test("the preview says what a promise would give, before it is applied", async () => {
  const [id, other] = [service.hog(), service.hog()];
  await service.tactus("set", other, "--slice", "1ms", "--period", "20ms");
  const page = await service.browse();
  await edit(page, id);
  await page.fill("#slice-text", "6ms");
  await page.waitForSelector("text=/Simulated: 1 s/");
  const cells = page.locator("table.compared tbody tr");
  assert.equal(await cells.nth(0).locator("td").first().innerText(), "0.0 %");
  const share = parseFloat(await cells.nth(1).locator("td").first().innerText());
  assert.ok(share >= 30 && share <= 100, `6ms every 20ms is at least 30 %: ${share}`);
  assert.equal((await service.vm(id)).desired.promise.slice_ns, 1_000_000);
  assert.deepEqual(page.errors, []);
  await page.close();
  for (const vm of [id, other]) await service.tactus("unset", vm);
});

test("the remedy of a refusal is taken by a click", async () => {
  const id = service.hog();
  const page = await service.browse();
  await edit(page, id);
  await page.fill("#slice-text", "19.9ms");
  await page.waitForSelector(".refusal >> text=Refused");
  await page.click("text=/Take a slice of/");
  await page.waitForSelector("text=The service would accept this change.");
  await page.click("button.apply");
  await page.waitForSelector("text=The change is in force.");
  assert.equal((await service.vm(id)).state.phase, "kept");
  await page.close();
  await service.tactus("unset", id);
});

test("a change of another client is told, and is not overwritten unseen", async () => {
  const id = service.hog();
  const page = await service.browse();
  await edit(page, id);
  const other = await service.browse();
  await other.click(`tr[data-vm^="${id}"] .link`);
  await other.fill("#slice-text", "3ms");
  await other.click("button.apply");
  await other.waitForSelector("text=The change is in force.");
  await page.fill("#slice-text", "4ms");
  await page.click("button.apply");
  await page.waitForSelector("text=Another client has changed this VM");
  assert.equal((await service.vm(id)).desired.promise.slice_ns, 3_000_000);
  await page.click("button.apply");
  await page.waitForSelector("text=The change is in force.");
  assert.equal((await service.vm(id)).desired.promise.slice_ns, 4_000_000);
  // The log has both changes, and undoes the last one.
  await other.click("nav >> text=Changes");
  await other.locator("tbody tr", { hasText: "4ms every 20ms" }).locator("text=Undo").first().click();
  await other.waitForSelector("text=/is undone/");
  assert.equal((await service.vm(id)).desired.promise.slice_ns, 3_000_000);
  await page.close();
  await other.close();
  await service.tactus("unset", id);
});

test("a gamepad moves the slice, and rumbles if the wish is impossible", async () => {
  const id = service.hog();
  const page = await service.browse({}, (page) =>
    page.addInitScript(() => {
      globalThis.rumbles = 0;
      globalThis.axes = [0, 0];
      const vibrationActuator = { playEffect: async () => void (globalThis.rumbles += 1) };
      navigator.getGamepads = () => [{ connected: true, axes: globalThis.axes, vibrationActuator }];
    }),
  );
  await edit(page, id);
  await page.evaluate(() => (globalThis.axes = [0, -1]));
  await until("the slice grows", async () => parseFloat(await page.inputValue("#slice-text")) >= 2);
  await page.waitForSelector(".refusal >> text=Refused");
  await until("it rumbles", () => page.evaluate(() => globalThis.rumbles > 0));
  assert.equal((await service.vm(id)).desired.promise.slice_ns, 1_000_000);
  await page.evaluate(() => (globalThis.axes = [0, 1]));
  await page.waitForSelector("text=The service would accept this change.");
  // With the switch, the stick steers the VM itself.
  await page.check("input[role=switch]");
  await until("the promise follows the stick", async () => (await service.vm(id)).desired.promise.slice_ns !== 1_000_000);
  await page.close();
  await service.tactus("unset", id);
});

test("all views show the host", async () => {
  const id = service.hog();
  await service.tactus("set", id, "--slice", "4ms", "--period", "20ms");
  const page = await service.browse();
  await page.click("nav >> text=CPUs");
  await page.waitForSelector("svg.bar >> text=/20.0 %/", { state: "attached" });
  await page.click("nav >> text=Timeline");
  await page.waitForSelector("canvas.timeline");
  const box = await page.locator("canvas.timeline").boundingBox();
  await page.mouse.click(box.x + box.width / 2, box.y + 10);
  await until("the pointer names a thread", async () => {
    await page.mouse.move(box.x + 100 + Math.random() * (box.width - 100), box.y + 10);
    return (await page.locator("section .note").allInnerTexts()).some((note) => /ran for/.test(note));
  });
  await page.click("nav >> text=History");
  await page.waitForSelector(".uplot canvas");
  await page.click("text=1h");
  assert.match(page.url(), /view=history&range=1h/);
  assert.deepEqual(page.errors, []);
  await page.close();
  await service.tactus("unset", id);
});

test("a client with the role view sees no control", async () => {
  const id = service.hog();
  await service.tactus("set", id, "--slice", "1ms", "--period", "20ms");
  const page = await service.browse({}, (page) =>
    page.route("**/v1/caller", (route) => route.fulfill({ json: { name: "cert:eve", role: "view" } })),
  );
  await page.click(`tr[data-vm^="${id}"] .link`);
  await page.waitForSelector("section.editor");
  assert.equal(await page.locator("form, input[type=checkbox], input[type=range]").count(), 0);
  await page.close();
  await service.tactus("unset", id);
});

test("several marked VMs are changed together", async () => {
  const [one, other] = [service.hog(), service.hog()];
  for (const id of [one, other]) await service.tactus("set", id, "--weight", "90");
  const page = await service.browse();
  for (const id of [one, other]) await page.check(`tr[data-vm^="${id}"] input[type=checkbox]`);
  await page.click("text=Change 2 VMs");
  await page.fill("#weight-text", "150");
  await page.click("button.apply");
  await until("both have the weight", async () =>
    [await service.vm(one), await service.vm(other)].every((vm) => vm.desired.weight === 150),
  );
  await page.fill("input[type=search]", "no such name");
  await page.waitForSelector("text=/None of the \\d+ VMs/");
  await page.close();
  for (const id of [one, other]) await service.tactus("unset", id);
});

const AXE = readFileSync(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

for (const theme of ["light", "dark"]) {
  test(`the page is accessible in the ${theme} theme`, async () => {
    const id = service.hog();
    const page = await service.browse({ theme });
    await edit(page, id);
    await page.fill("#slice-text", "19.9ms");
    await page.waitForSelector(".refusal >> text=Refused");
    for (const view of ["VMs", "CPUs", "History", "Timeline", "Changes"]) {
      await page.click(`nav >> text=${view}`);
      await page.waitForTimeout(300);
      // The browser does not execute inline scripts of the page; an evaluated one is of the test.
      const { violations } = await page.evaluate(`${AXE}; axe.run()`);
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      assert.deepEqual(serious.map(({ id, nodes }) => [view, id, nodes[0].html]), []);
    }
    if (process.env.SCREENSHOTS) {
      for (const [name, width, height] of [["desktop", 1280, 800], ["phone", 390, 844]]) {
        await page.setViewportSize({ width, height });
        for (const view of ["VMs", "CPUs", "History", "Timeline", "Changes"]) {
          await page.click(`nav >> text=${view}`);
          await page.waitForTimeout(1_200);
          await page.screenshot({ path: `${process.env.SCREENSHOTS}/${view}-${name}-${theme}.png` });
        }
      }
    }
    await page.close();
    await service.tactus("unset", id);
  });
}

test("a page without the service says so, and goes on when the service is back", async () => {
  const page = await service.browse();
  await page.waitForTimeout(500);
  await service.stop("SIGKILL");
  await page.waitForSelector("text=/The service does not answer/");
  await service.serve();
  await page.waitForSelector("text=/The service does not answer/", { state: "detached" });
  await page.close();
});
