// A draft: what the operator has changed of the desired state of one VM or of several. Fields that were not touched keep the
// value of each VM, so a draft can be applied on top of the change of another client.

import type { Desired, Limit, Mechanism, Promised } from "./api";
import { exactDuration, readCount, readDuration, type Read } from "./quantity";

/** The touched fields. Typed text stays text, so that a wrong value can be corrected. */
export interface Draft {
  /** Whether a promise is desired. */
  promise?: boolean;
  slice?: string;
  period?: string;
  cpus?: string;
  gang?: boolean;
  limit?: Limit;
  mechanism?: Mechanism;
  weight?: string;
  cap?: string;
  paused?: boolean;
}

export type Field = keyof Draft;

export interface Mistake {
  field: Field;
  error: string;
  help: string;
}

/** Maximum values of the service (crate `api`, `Desired` and `Promise`). */
const WEIGHT_MOST = 10_000;
const CAP_MOST = 102_400;
const CPUS_MOST = 256;

export function isEmpty(draft: Draft): boolean {
  return Object.keys(draft).length === 0;
}

/** Returns what is desired for a VM after the draft, or the mistakes in it. `promisable` is in percent of each CPU. */
export function applied(draft: Draft, base: Desired, promisable = 100): Desired | Mistake[] {
  const mistakes: Mistake[] = [];
  const value = <T>(field: Field, read: Read<T>): T | undefined => {
    if ("value" in read) return read.value;
    mistakes.push({ field, ...read });
    return undefined;
  };
  const promise = promised(draft, base.promise, promisable, value);
  const weight = draft.weight === undefined ? base.weight : value("weight", readCount(draft.weight, "weight", 1, WEIGHT_MOST));
  const cap = draft.cap === undefined ? base.cap_percent : value("cap", readCount(draft.cap, "cap", 1, CAP_MOST));
  if (mistakes.length > 0) return mistakes;
  return {
    ...(promise ? { promise } : {}),
    ...(weight === undefined ? {} : { weight }),
    ...(cap === undefined ? {} : { cap_percent: cap }),
    paused: draft.paused ?? base.paused,
  };
}

function promised(
  draft: Draft,
  base: Promised | undefined,
  promisable: number,
  value: <T>(field: Field, read: Read<T>) => T | undefined,
): Promised | undefined {
  const isTouched = draft.slice !== undefined || draft.period !== undefined;
  if (!(draft.promise ?? (base !== undefined || isTouched))) return undefined;
  const length = (field: "slice" | "period", base: number | undefined, example: string) =>
    draft[field] === undefined && base !== undefined ? base : value(field, readDuration(draft[field] ?? "", field, example));
  const slice_ns = length("slice", base?.slice_ns, "2ms");
  const period_ns = length("period", base?.period_ns, "10ms");
  const cpus = draft.cpus === undefined ? base?.cpus ?? 1 : value("cpus", readCount(draft.cpus, "number of CPUs", 1, CPUS_MOST)) ?? 1;
  if (slice_ns === undefined || period_ns === undefined) return undefined;
  if (slice_ns > period_ns * cpus) {
    const most = exactDuration(Math.floor((period_ns * cpus * promisable) / 100));
    const time = cpus > 1 ? `the time of ${cpus} CPUs in the period` : "the period";
    value("slice", { error: `the slice exceeds ${time}`, help: `use a slice of at most ${most}` });
  }
  return {
    slice_ns,
    period_ns,
    cpus,
    gang: draft.gang ?? base?.gang ?? false,
    limit: draft.limit ?? base?.limit ?? "soft",
    mechanism: draft.mechanism ?? base?.mechanism ?? "auto",
  };
}

/** The value of each field of a desired state, as a draft has it. */
export function fieldsOf({ promise, weight, cap_percent, paused }: Desired): Required<Draft> {
  return {
    promise: promise !== undefined,
    slice: promise ? exactDuration(promise.slice_ns) : "",
    period: promise ? exactDuration(promise.period_ns) : "",
    cpus: String(promise?.cpus ?? 1),
    gang: promise?.gang ?? false,
    limit: promise?.limit ?? "soft",
    mechanism: promise?.mechanism ?? "auto",
    weight: weight === undefined ? "" : String(weight),
    cap: cap_percent === undefined ? "" : String(cap_percent),
    paused,
  };
}

/** Returns the value of a field: the touched one, or else that of all VMs; `undefined`: the VMs differ. */
export function shownValue<F extends Field>(field: F, draft: Draft, all: readonly Desired[]): Required<Draft>[F] | undefined {
  const touched = draft[field] as Required<Draft>[F] | undefined;
  if (touched !== undefined) return touched;
  const values = new Set(all.map((desired) => fieldsOf(desired)[field]));
  return values.size === 1 ? [...values][0] : undefined;
}

/** Returns the draft without fields that have the value of all VMs. */
export function simplified(draft: Draft, all: readonly Desired[]): Draft {
  const kept = (Object.keys(draft) as Field[]).filter((field) => draft[field] !== shownValue(field, {}, all));
  return Object.fromEntries(kept.map((field) => [field, draft[field]])) as Draft;
}

/** Activities with the longest period of a slice of 1 ms that all users found acceptable (VSched 2005, figure 11), and its
 * batch VM. */
export const ACTIVITIES: { name: string; slice: string; period: string }[] = [
  { name: "3D game", slice: "1ms", period: "6ms" },
  { name: "Music", slice: "1ms", period: "7ms" },
  { name: "Video", slice: "1ms", period: "5ms" },
  { name: "Web browser", slice: "1ms", period: "7ms" },
  { name: "Batch", slice: "1min", period: "10min" },
];
