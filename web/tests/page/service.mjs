// A real service with a core, processes that are always runnable, and a browser at its page.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const TACTUS = process.env.TACTUS ?? new URL("../../../target/debug/tactus", import.meta.url).pathname;
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

// Waits until `isSo` returns something, which is returned.
export async function until(what, isSo, patience = 20_000) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await isSo();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${patience} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function ended(child) {
  return new Promise((resolve) => (child.exitCode === null && child.signalCode === null ? child.once("exit", resolve) : resolve()));
}

// Runs a program, and returns its output.
async function output(command, args, cwd) {
  const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let [out, err] = ["", ""];
  child.stdout.on("data", (part) => (out += part));
  child.stderr.on("data", (part) => (err += part));
  const code = await new Promise((resolve) => child.once("close", resolve));
  if (code !== 0) throw new Error(`${command} ${args.join(" ")}: ${err}`);
  return out;
}

export class Service {
  #place = mkdtempSync(join(tmpdir(), "tactus-page-"));
  #children = [];
  #browser;
  #serve;
  #page;

  static async begin() {
    const service = new Service();
    try {
      await service.serve();
      await service.open();
      service.#browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
      return service;
    } catch (error) {
      await service.end();
      throw error;
    }
  }

  // Starts the service.
  async serve() {
    const args = ["serve", "--socket", "api.sock", "--state", "state", "--directory", "live", "--labels", "vms.d", "--libvirt", "lv"];
    this.#serve = spawn(TACTUS, args, { cwd: this.#place, stdio: "ignore" });
    await until("the service has a core", async () => {
      if (!existsSync(join(this.#place, "api.sock"))) return false;
      return (await this.#host().catch(() => ({}))).core !== undefined;
    });
  }

  async #host() {
    const curl = ["--silent", "--unix-socket", join(this.#place, "api.sock"), "http://tactus/v1/host"];
    return JSON.parse(await output("curl", curl));
  }

  // Ends the service, or kills it.
  async stop(signal = "SIGTERM") {
    this.#serve.kill(signal);
    await ended(this.#serve);
  }

  // Starts `tactus page`. Its address admits one browser.
  async open() {
    this.#page?.kill("SIGTERM");
    this.#page = spawn(TACTUS, ["page", "--socket", "api.sock"], { cwd: this.#place, stdio: ["ignore", "pipe", "ignore"] });
    this.url = await new Promise((resolve, reject) => {
      this.#page.stdout.once("data", (line) => resolve(String(line).trim()));
      this.#page.once("exit", () => reject(new Error("tactus page has ended")));
    });
  }

  // Starts a process that is always runnable, and returns its id in the interface.
  hog() {
    const child = spawn("sh", ["-c", "while :; do :; done"], { stdio: "ignore" });
    this.#children.push(child);
    return `pid:${child.pid}`;
  }

  // Runs a command of a client.
  tactus(...args) {
    return output(TACTUS, [...args, "--socket", "api.sock"], this.#place);
  }

  async vm(id) {
    const { vms } = JSON.parse(await this.tactus("list", "--json"));
    return vms.find((vm) => vm.id.startsWith(id));
  }

  // Opens the page in the browser. `prepare` sees the page before it loads.
  async browse(options = {}, prepare = async () => {}) {
    const context = this.context ?? (this.context = await this.#browser.newContext({ viewport: { width: 1280, height: 800 } }));
    const page = await context.newPage();
    page.errors = [];
    page.on("pageerror", (error) => page.errors.push(String(error)));
    page.on("console", (message) => message.type() === "error" && page.errors.push(message.text()));
    await page.emulateMedia({ colorScheme: options.theme ?? "light" });
    if (options.size) await page.setViewportSize(options.size);
    await prepare(page);
    await page.goto(this.isKnown ? this.url.replace(/\?.*/, "") : this.url);
    this.isKnown = true;
    await page.waitForSelector("header nav");
    return page;
  }

  async end() {
    await this.#browser?.close();
    for (const child of [...this.#children, this.#page, this.#serve]) {
      child?.kill(child === this.#serve ? "SIGTERM" : "SIGKILL");
      if (child) await ended(child);
    }
    rmSync(this.#place, { recursive: true, force: true });
  }
}
