// The session of the playground: inputs, the present run and its results.

import { effect, signal, untracked } from "@preact/signals";
import type { Complaint, Policy, Request, Simulated } from "../simulator/request";
import { Cancelled, InternalError, type Simulator } from "../simulator/simulator";
import { type Inputs, type Range, first, toHash } from "./link";
import type { Run } from "./report";
import * as scenarios from "./scenarios";
import { nanoseconds } from "./time";

/** Delay from the last change of an input to the run. Unit: ms. */
const DELAY_MS = 300;
/** Bounds of the width of a picture. Unit: pixels. */
const [WIDTH_LEAST, WIDTH_MOST] = [360, 1600];

/** The results of a run. */
export interface Results {
  simulated: Simulated;
  runs: Run[];
  /** Time that the runs took. Unit: ms. */
  took_ms: number;
}

export const inputs = signal<Inputs>(first());
/** All policies; empty until the module is loaded. */
export const policies = signal<Policy[]>([]);
export const results = signal<Results | null>(null);
export const complaints = signal<Complaint[]>([]);
export const failure = signal<InternalError | null>(null);
/** The completed fraction of the present run; `null` without a run. */
export const progress = signal<number | null>(null);
/** Width of the pictures. Unit: pixels. */
const width = signal(WIDTH_LEAST);

let simulator: Simulator;
/** Number of the latest run. */
let latest = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Changes some inputs; a run follows. */
export function change(part: Partial<Inputs>): void {
  inputs.value = { ...inputs.value, ...part };
}

/** Shows another part of the run. `null`: the most informative part. */
export function show(range: Range | null): void {
  change({ range });
}

/** Sets the width of the pictures. Small changes are ignored. */
export function resize(pixels: number): void {
  const next = Math.round(Math.min(WIDTH_MOST, Math.max(WIDTH_LEAST, pixels)));
  if (Math.abs(next - width.peek()) > 24) {
    width.value = next;
  }
}

/** Starts the session: runs follow every change. */
export async function start(of: Simulator): Promise<void> {
  simulator = of;
  effect(() => {
    // These two reads subscribe to the changes.
    void [inputs.value, width.value];
    clearTimeout(timer);
    timer = setTimeout(() => void run(), untracked(() => (results.value ? DELAY_MS : 0)));
  });
  try {
    policies.value = await simulator.policies();
  } catch (error) {
    report(error);
  }
}

/** Cancels the present run. The results of the previous run stay. */
export function cancel(): void {
  clearTimeout(timer);
  simulator.cancel();
}

/** Runs the present inputs. */
export async function run(): Promise<void> {
  clearTimeout(timer);
  const now = inputs.peek();
  void toHash(now).then((hash) => now === inputs.peek() && history.replaceState(null, "", hash));
  const [from_ns, to_ns] = now.range ?? [0, undefined];
  const picture = { width: width.peek(), from_ns, ...(to_ns === undefined ? {} : { to_ns }) };
  await guarded(async () => {
    const begin = performance.now();
    const simulated = await simulator.run({ ...request(now), picture }, meter(now.policies.length));
    const { runs } = JSON.parse(simulated.json) as { runs: Run[] };
    results.value = { simulated, runs, took_ms: performance.now() - begin };
    complaints.value = [];
  });
}

/** Returns the traces of the present inputs under one policy. */
export async function trace(policy: string): Promise<string | undefined> {
  return guarded(async () => {
    const asked = { ...request(inputs.peek()), policies: [policy], trace: true };
    return (await simulator.run(asked, meter(1))).traces[0];
  });
}

/** Runs `work` with progress, and reports its failure. */
async function guarded<T>(work: () => Promise<T>): Promise<T | undefined> {
  const number = ++latest;
  simulator.cancel();
  failure.value = null;
  progress.value = 0;
  try {
    return await work();
  } catch (error) {
    report(error);
    return undefined;
  } finally {
    // A newer run shows its own progress.
    if (number === latest) {
      progress.value = null;
    }
  }
}

function report(error: unknown): void {
  if (error instanceof InternalError) {
    failure.value = error;
  } else if (Array.isArray(error)) {
    complaints.value = error as Complaint[];
  } else if (!(error instanceof Cancelled)) {
    throw error;
  }
}

/** Returns a receiver of progress that adds up several runs. */
function meter(runs: number): (now: number, end: number) => void {
  let [done, last] = [0, 0];
  return (now, end) => {
    done += now < last ? 1 : 0;
    last = now;
    progress.value = Math.min(1, (done + now / end) / Math.max(1, runs));
  };
}

/** Returns the request for these inputs, without a picture. */
function request(now: Inputs): Request {
  const [seed, length_ns] = [wholeNumber(now.seed), nanosecondsOf(now.length)];
  const chosen = new Set(now.policies);
  const knobs = Object.entries(now.knobs).filter(([knob, value]) => value !== "" && chosen.has(knob.split(".")[0] ?? ""));
  return {
    name: scenarios.path(now.scenario),
    scenario: now.text,
    files: scenarios.files,
    policies: now.policies,
    knobs: knobs.map(([knob, value]) => `${knob}=${value}`),
    ...(seed === undefined ? {} : { seed }),
    ...(length_ns === undefined ? {} : { length_ns }),
  };
}

function wholeNumber(text: string): number | undefined {
  if (text.trim() === "") {
    return undefined;
  }
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0) {
    throw [complaint(`the seed ${text} is no whole number`, "use a number from 0 up to 9007199254740991")];
  }
  return number;
}

function nanosecondsOf(text: string): number | undefined {
  const found = nanoseconds(text);
  if (found === undefined && text.trim() !== "") {
    throw [complaint(`the length ${text} is no time`, "use a number with a unit, such as 500ms or 2s")];
  }
  return found;
}

const complaint = (reason: string, remedy: string): Complaint => ({ reason, remedy, place: "", parts: [] });
