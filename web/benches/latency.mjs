// The time from an input on the page until the page shows what it led to, with `tactus page` and a real service.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { Service, TACTUS, browser, open, sleep, until } from "../tests/page/service.mjs";
import { quantile } from "./figures.mjs";

const TEN_VMS = resolve(import.meta.dirname, "ten-vms.toml");
/** Number of inputs until the code of the page is compiled, and number of measured inputs. */
const WARM_UP = 10;
const INPUTS = 100;
/** Time between two inputs. Unit: ms. */
const PAUSE_MS = 150;

/** Starts a command that prints the address of a page. Returns the address, and a function that ends the command. */
async function address(args, place) {
  const child = spawn(TACTUS, args, { cwd: place, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((done) => child.once("exit", done));
  const end = async () => {
    child.kill("SIGINT");
    await ended;
  };
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.includes("?token=")) return [line.trim(), end];
  }
  throw new Error(`tactus ${args.join(" ")} printed no address`);
}

/** Calls `use` with a page. */
async function withPage(url, use) {
  const chromium = await browser();
  try {
    const page = await open(await chromium.newContext({ viewport: { width: 1280, height: 800 } }), url);
    const result = await use(page);
    assert.deepEqual(page.errors, []);
    return result;
  } finally {
    await chromium.close();
  }
}

/** Begins to measure the time from the next event of this kind until the text of `selector` has changed. */
async function measure(page, event, selector) {
  await page.evaluate(
    ([event, selector]) => {
      const text = () => document.querySelector(selector)?.textContent ?? "";
      window.measured = new Promise((done) => {
        const begin = () => {
          const [before, from] = [text(), performance.now()];
          const observer = new MutationObserver(() => {
            if (text() === before) return;
            observer.disconnect();
            done(performance.now() - from);
          });
          observer.observe(document.body, { subtree: true, childList: true, characterData: true });
        };
        window.addEventListener(event, begin, { capture: true, once: true });
      });
    },
    [event, selector],
  );
}

/** Makes inputs, and returns the 95th percentile of their times. Unit: ms. */
async function timesOf(page, event, selector, input) {
  const times = [];
  for (let number = 0; number < WARM_UP + INPUTS; number += 1) {
    await measure(page, event, selector);
    await input(number);
    const time = await page.evaluate(() => Promise.race([window.measured, new Promise((done) => setTimeout(done, 5000))]));
    assert.ok(time !== undefined, `input ${number} changed nothing`);
    if (number >= WARM_UP) times.push(time);
    await sleep(PAUSE_MS);
  }
  return quantile(times, 0.95);
}

/** From a step of the slider to the preview, for a host with ten VMs. */
export async function sliderToPreview() {
  const place = mkdtempSync(join(tmpdir(), "tactus-bench-"));
  const [url, end] = await address(["sim", TEN_VMS, "--serve", "--socket", join(place, "api.sock"), "--page"], place);
  try {
    // The demand of the last ten seconds is known.
    await sleep(10_000);
    return await withPage(url, async (page) => {
      await page.click('tr[data-id="hog 0"] .open');
      const slider = page.getByLabel("Slice on a logarithmic scale");
      await slider.focus();
      // The slice is always longer than at the start, so that there is a draft.
      const key = (number) => (number === 0 || (number - 1) % 40 < 20 ? "ArrowRight" : "ArrowLeft");
      return timesOf(page, "input", ".comparison table.pairs tbody", (number) => page.keyboard.press(key(number)));
    });
  } finally {
    await end();
    rmSync(place, { recursive: true, force: true });
  }
}

/** From Enter to the changed grant in the table, for a real host with a core. */
export async function applyToScreen() {
  const service = await Service.start();
  try {
    service.vm("vm-a", { isHog: true });
    await until("the VM is found", () => service.listed()?.length === 1);
    const [url, end] = await address(["page", "--socket", service.socket], service.place);
    try {
      return await withPage(url, async (page) => {
        await page.click('tr[data-id="vm-a"] .open');
        await page.fill("#period", "10ms");
        return timesOf(page, "keydown", 'tr[data-id="vm-a"] .granted', async (number) => {
          await page.fill("#slice", `${1 + (number % 4)}ms`);
          await page.keyboard.press("Enter");
        });
      });
    } finally {
      await end();
    }
  } finally {
    await service.end();
  }
}
