// The latest measurements of a VM, one sample a second: what it used, waited and missed meanwhile.

import type { CpuTime, Measured, Usage } from "./api";

/** Number of samples of a sparkline. */
export const KEPT = 60;
/** Number of samples behind a present value: a single second has too few periods. */
const RECENT = 10;

export interface Sample {
  /** CPU time, and time without a CPU while runnable, as parts of a CPU. */
  used: number;
  waited: number;
  /** Sum of the waits, and number of dispatches: their quotient is the mean scheduling latency. */
  waited_ns: number;
  dispatches: number;
  judged: number;
  missed: number;
  due_ns: number;
  delivered_ns: number;
  short_ns: number;
}

const NOTHING: Sample = {
  used: 0,
  waited: 0,
  waited_ns: 0,
  dispatches: 0,
  judged: 0,
  missed: 0,
  due_ns: 0,
  delivered_ns: 0,
  short_ns: 0,
};
const KEYS = Object.keys(NOTHING) as (keyof Sample)[];

interface Reading {
  at_ns: number;
  usage: Usage;
  measured: Measured;
}

export class Samples {
  readonly all: Sample[] = [];
  private last: Reading | undefined;

  /** Adds the time since the last reading. The first reading only begins. */
  add(at_ns: number, usage: Usage, measured: Measured): void {
    const { last } = this;
    this.last = { at_ns, usage, measured };
    const passed = at_ns - (last?.at_ns ?? at_ns);
    if (!last || passed <= 0 || last.usage.pid !== usage.pid) return;
    const [now, before] = [time(usage), time(last.usage)];
    const passedOf = (key: keyof CpuTime) => Math.max(0, now[key] - before[key]);
    this.all.push({
      used: passedOf("ran_ns") / passed,
      waited: passedOf("waited_ns") / passed,
      waited_ns: passedOf("waited_ns"),
      dispatches: passedOf("dispatches"),
      ...since(measured, last.measured),
    });
    if (this.all.length > KEPT) this.all.shift();
  }

  /** Returns what the latest samples have in sum; `undefined`: there are none yet. */
  recent(): Sample | undefined {
    const latest = this.all.slice(-RECENT);
    if (latest.length === 0) return undefined;
    const sum: Sample = { ...NOTHING };
    for (const sample of latest) for (const key of KEYS) sum[key] += sample[key];
    sum.used /= latest.length;
    sum.waited /= latest.length;
    return sum;
  }
}

/** Returns the CPU time of the vCPUs; of all threads, if none is known as a vCPU. */
function time(usage: Usage) {
  return usage.vcpus > 0 ? usage.of_vcpus : usage.of_others;
}

/** Returns the measurements since `before`. A new promise begins at zero. */
function since(measured: Measured, before: Measured) {
  const isNew = measured.periods < before.periods;
  const part = (key: "judged" | "missed" | "due_ns" | "delivered_ns" | "short_ns") =>
    measured[key] - (isNew ? 0 : before[key]);
  return {
    judged: part("judged"),
    missed: part("missed"),
    due_ns: part("due_ns"),
    delivered_ns: part("delivered_ns"),
    short_ns: part("short_ns"),
  };
}

/**
 * Returns the path of a sparkline, `width` by `height` units, in whole units. The highest value is at the top, but at least `most`
 * is.
 */
export function sparkPath(values: readonly number[], most: number, width: number, height: number): string {
  const top = Math.max(most, ...values);
  const step = width / (KEPT - 1);
  const begin = KEPT - values.length;
  // Half of the line is inside.
  const edge = height / 28;
  let path = "";
  for (let at = 0; at < values.length; at += 1) {
    const y = height - edge - ((values[at] ?? 0) / top) * (height - 2 * edge);
    path += `${at === 0 ? "M" : "L"}${Math.round((begin + at) * step)} ${Math.round(y)}`;
  }
  return values.length < 2 ? "" : path;
}
