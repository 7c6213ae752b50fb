// The values of a VM in the table, its order and its filter.

import type { Desired, Promised, Vm } from "./api";
import type { Sample } from "./samples";
import { exactDuration } from "./quantity";

export type Column =
  | "name"
  | "state"
  | "asked"
  | "granted"
  | "delivered"
  | "missed"
  | "used"
  | "waited"
  | "latency"
  | "efficiency"
  | "weight"
  | "cap"
  | "cost";

export interface Sorting {
  column: Column;
  isDescending: boolean;
}

/** Returns a promise as a part of a CPU. */
export function partOf(promise: Promised): number {
  return promise.slice_ns / promise.period_ns;
}

export function promiseText(promise: Promised | undefined): string {
  if (!promise) return "";
  const cpus = promise.cpus > 1 ? ` on ${promise.cpus} CPUs` : "";
  const words = [promise.gang && "gang", promise.limit === "hard" && "hard"].filter(Boolean);
  const rest = words.length > 0 ? `, ${words.join(", ")}` : "";
  return `${exactDuration(promise.slice_ns)} in ${exactDuration(promise.period_ns)}${cpus}${rest}`;
}

/** Returns everything that is desired, in words. */
export function desiredText(desired: Desired): string {
  const parts = [promiseText(desired.promise)];
  if (desired.weight !== undefined) parts.push(`weight ${desired.weight}`);
  if (desired.cap_percent !== undefined) parts.push(`at most ${desired.cap_percent}%`);
  if (desired.paused) parts.push("paused");
  return parts.filter(Boolean).join(", ") || "nothing";
}

/** Returns the part of a CPU that is in force for a VM; `undefined`: no promise is. */
export function grantedPart(vm: Vm): number | undefined {
  const isInForce = vm.state.phase === "kept" || vm.state.phase === "not-kept";
  return isInForce && vm.desired.promise ? partOf(vm.desired.promise) : undefined;
}

/** Returns the delivered part of the CPU time that was due. Demand below the slice is no shortage, and counts as such here. */
export function deliveredPart(sample: Sample | undefined): number | undefined {
  return sample && sample.due_ns > 0 ? sample.delivered_ns / sample.due_ns : undefined;
}

/** Returns the used part of what is granted. A soft promise may use more. */
export function efficiency(vm: Vm, sample: Sample | undefined): number | undefined {
  const granted = grantedPart(vm);
  return granted && sample ? sample.used / granted : undefined;
}

/** Returns the mean time from a wake-up, or from a preemption, until a vCPU ran; `undefined`: none received a CPU. Unit: ns. */
export function latency(sample: Sample | undefined): number | undefined {
  return sample && sample.dispatches > 0 ? sample.waited_ns / sample.dispatches : undefined;
}

/** Returns what a VM costs in an hour, at a price for an hour of a CPU. */
export function cost(vm: Vm, price: number): number | undefined {
  const granted = grantedPart(vm);
  return granted === undefined || price === 0 ? undefined : granted * price;
}

/** Returns the key of a VM in the order of a column. A VM without a value comes last. */
export function key(vm: Vm, sample: Sample | undefined, column: Column): string | number | undefined {
  switch (column) {
    case "name":
      return vm.name;
    case "state":
      return vm.state.phase;
    case "asked":
      return vm.desired.promise && partOf(vm.desired.promise);
    case "granted":
    case "cost":
      return grantedPart(vm);
    case "delivered":
      return deliveredPart(sample);
    case "missed":
      return vm.desired.promise && vm.measured.missed;
    case "used":
      return sample?.used;
    case "waited":
      return sample?.waited;
    case "latency":
      return latency(sample);
    case "efficiency":
      return efficiency(vm, sample);
    case "weight":
      return vm.desired.weight;
    case "cap":
      return vm.desired.cap_percent;
  }
}

export interface Entry {
  vm: Vm;
  sample: Sample | undefined;
}

/** Returns the ids of the VMs that match, in order. Equal keys are in the order of names and ids. */
export function ordered(entries: readonly Entry[], query: string, { column, isDescending }: Sorting): string[] {
  const matching = query.trim() === "" ? entries : entries.filter(({ vm }) => matches(vm, query));
  const keyed = matching.map(({ vm, sample }) => ({ vm, key: key(vm, sample, column) }));
  keyed.sort((a, b) => {
    if (a.key === undefined || b.key === undefined) {
      return Number(a.key === undefined) - Number(b.key === undefined) || byName(a.vm, b.vm);
    }
    const order = compare(a.key, b.key);
    return (isDescending ? -order : order) || byName(a.vm, b.vm);
  });
  return keyed.map(({ vm }) => vm.id);
}

/** Names with numbers are in the order of the numbers: vm2 is before vm10. */
const names = new Intl.Collator("en", { numeric: true });

function compare(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number" ? a - b : names.compare(String(a), String(b));
}

function byName(a: Vm, b: Vm): number {
  return names.compare(a.name, b.name) || names.compare(a.id, b.id);
}

/** Returns whether a VM has every word of the query. `state:kept` and `kind:qemu` are whole values. */
export function matches(vm: Vm, query: string): boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every((word) => {
    if (word.startsWith("state:")) return vm.state.phase === word.slice(6);
    if (word.startsWith("kind:")) return vm.kind === word.slice(5);
    const text = [vm.name, vm.id, vm.kind, vm.state.phase, vm.process?.pid ?? ""].join(" ");
    return text.toLowerCase().includes(word);
  });
}
