// The work of the page for a host with 100 VMs and ten updates a second. The updates are made up, so no service is needed.

import assert from "node:assert/strict";
import { servePage } from "../tests/serve-page.mjs";
import { browser, open, sleep } from "../tests/page/service.mjs";
import { quantile } from "./figures.mjs";

const VMS = 100;
const INTERVAL_MS = 100;
/** Number of updates until the code of the page is compiled, and number of measured updates. */
const WARM_UP = 30;
const UPDATES = 150;
/** Number of intervals without an update: their work is that of the measurement. */
const IDLE = 50;
const PERIOD_NS = 10e6;

function vm(number, update) {
  const periods = 10 * update + number;
  const measured = {
    periods,
    judged: periods,
    // A tenth of the VMs miss a period in each update; the measurements of all change.
    missed: number % 10 === 0 ? Math.floor(periods / 8) : number,
    due_ns: periods * 1e6,
    delivered_ns: periods * 0.98e6,
    short_ns: periods * 1000,
    shortfalls: Array(10).fill(0),
    lost: 0,
  };
  const promise = { slice_ns: 1e6, period_ns: PERIOD_NS, cpus: 1, gang: false, limit: "soft", mechanism: "auto" };
  return {
    id: `vm-${number}`,
    name: `vm-${number}`,
    kind: "qemu",
    process: { pid: 1000 + number, start_time: 1, user: 0 },
    generation: 1,
    desired: { promise, paused: false },
    source: "client",
    state: { phase: (number + update) % 20 === 0 ? "not-kept" : "kept", mechanism: "inherit" },
    measured,
  };
}

function usages(update) {
  const of = (number) => ({
    id: `vm-${number}`,
    pid: 1000 + number,
    vcpus: 1,
    of_vcpus: { ran_ns: update * 1e7 * (1 + (number % 5)), waited_ns: update * 1e6 * (number % 9), dispatches: update * 50 },
    of_others: { ran_ns: 0, waited_ns: 0, dispatches: 0 },
  });
  return { at_ns: update * INTERVAL_MS * 1e6, vms: Array.from({ length: VMS }, (_, number) => of(number)) };
}

let update = 0;
/** Sends the next update. */
let sendNext = () => undefined;

function stream(reply) {
  reply.writeHead(200, { "content-type": "text/event-stream" });
  const send = (name, content) => reply.write(`event: ${name}\ndata: ${JSON.stringify(content)}\n\n`);
  sendNext = () => {
    if (update % 10 === 0) send("usage", usages(update));
    send("vms", { at_ms: Date.now(), vms: Array.from({ length: VMS }, (_, number) => vm(number, update)), gone: [] });
    update += 1;
  };
  sendNext();
}

const REPLIES = {
  "/v1/host": { version: "0", cpus: 16, promisable_percent: 90, mechanisms: ["inherit"], core: 1, warnings: [] },
  "/v1/caller": { name: "uid:0", role: "admin" },
};

function answer({ url }, reply) {
  if (url.startsWith("/v1/live")) stream(reply);
  else if (REPLIES[url]) reply.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(REPLIES[url]));
  else return false;
  return true;
}

/** Returns the CPU time of the main thread of the page. The wall time would include other programs of the host. Unit: s. */
async function spent(session) {
  const { metrics } = await session.send("Performance.getMetrics");
  return metrics.find(({ name }) => name === "ThreadTime").value;
}

/** Returns the CPU time of the main thread during an interval, after `begin`. Unit: ms. */
async function interval(session, begin) {
  const before = await spent(session);
  begin();
  await sleep(INTERVAL_MS);
  return 1000 * ((await spent(session)) - before);
}

/** Returns the 95th percentile of the work of the main thread for an update, without that of the measurement. Unit: ms. */
export async function workOfUpdates() {
  const web = await servePage({ socket: "none", answer });
  const chromium = await browser();
  try {
    const page = await open(await chromium.newContext({ viewport: { width: 1280, height: 800 } }), `${web.url}?sort=-missed`);
    await page.waitForSelector("tbody tr");
    const session = await page.context().newCDPSession(page);
    await session.send("Performance.enable");
    for (let number = 0; number < WARM_UP; number += 1) await interval(session, sendNext);
    const works = [];
    for (let number = 0; number < UPDATES; number += 1) works.push(await interval(session, sendNext));
    // The samples of the last updates are shown later.
    await sleep(10 * INTERVAL_MS);
    const idle = [];
    for (let number = 0; number < IDLE; number += 1) idle.push(await interval(session, () => {}));
    assert.deepEqual(page.errors, []);
    return quantile(works, 0.95) - quantile(idle, 0.5);
  } finally {
    await chromium.close();
    await web.end();
  }
}
