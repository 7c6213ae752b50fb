// A service with a core and a few VMs, for tests of the page. Needs root, and the program in `TACTUS` or target/debug.

import { spawn, execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { constants, setPriority, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";

export const TACTUS = process.env.TACTUS ?? resolve(import.meta.dirname, "../../../target/debug/tactus");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until `check` returns a value other than false and undefined. */
export async function until(what, check, limit = 20_000) {
  const end = Date.now() + limit;
  for (;;) {
    const found = await check();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > end) throw new Error(`not within ${limit} ms: ${what}`);
    await sleep(50);
  }
}

export class Service {
  children = [];

  static async start() {
    const service = new Service();
    service.place = mkdtempSync(join(tmpdir(), "tactus-page-"));
    service.socket = join(service.place, "api.sock");
    mkdirSync(join(service.place, "labels"));
    try {
      const core = join(service.place, "core.sock");
      service.core = service.spawn(TACTUS, ["core", "--listen", core]);
      await until("the core listens", () => existsSync(core));
      service.serve();
      await until("the service answers", () => service.listed() !== undefined);
      return service;
    } catch (error) {
      await service.end();
      throw error;
    }
  }

  serve() {
    const at = (name) => join(this.place, name);
    const places = ["--core", at("core.sock"), "--state", at("state"), "--labels", at("labels"), "--libvirt", at("none")];
    this.service = this.spawn(TACTUS, ["serve", "--socket", this.socket, ...places]);
  }

  spawn(program, args) {
    const child = spawn(program, args, { stdio: "ignore", cwd: this.place });
    this.children.push(child);
    return child;
  }

  /** Starts a process that is the VM `name`. A hog is always runnable, and any other VM sleeps. */
  vm(name, { isHog = false } = {}) {
    const program = join(this.place, name);
    copyFileSync(isHog ? "/usr/bin/yes" : "/bin/sleep", program);
    writeFileSync(join(this.place, "labels", `${name}.toml`), `program = "${name}"\n`);
    const child = this.spawn(program, isHog ? [] : ["600"]);
    // The browser runs beside the hog.
    if (isHog) setPriority(child.pid, constants.priority.PRIORITY_LOW);
    return child;
  }

  tactus(...args) {
    return execFileSync(TACTUS, [...args, "--socket", this.socket], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  /** Returns the VMs as `tactus list` has them; `undefined`: the service does not answer. */
  listed() {
    try {
      const listed = JSON.parse(this.tactus("list", "--json"));
      return listed.vms ?? listed;
    } catch {
      return undefined;
    }
  }

  desired(name) {
    return this.listed()?.find((vm) => vm.name === name)?.desired;
  }

  /** Ends every process that was started, the core last, and waits for each. */
  async end() {
    for (const child of this.children.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = new Promise((done) => child.once("exit", done));
      child.kill("SIGTERM");
      await Promise.race([ended, sleep(10_000).then(() => child.kill("SIGKILL"))]);
    }
    rmSync(this.place, { recursive: true, force: true });
  }
}

export function browser() {
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
}

/** Opens the page, and fails later if the browser refused something. */
export async function open(context, url) {
  const page = await context.newPage();
  page.errors = [];
  page.on("pageerror", (error) => page.errors.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && /Content Security Policy/.test(message.text())) page.errors.push(message.text());
  });
  await page.goto(url);
  return page;
}
