// The state of the page: what the service reports, and what the user looks at.

import { batch, computed, signal } from "@preact/signals";
import type { Caller, Desired, Host, HostEvent, LiveVms, Usages, Vm } from "./api";

// Number of seconds that sparklines and rates keep.
const SAMPLES = 60;
// Number of changes that the log keeps.
const CHANGES = 500;

// The sums of a VM at an instant.
interface Sums {
  periods: number;
  judged: number;
  missed: number;
  due_ns: number;
  delivered_ns: number;
}

const NOTHING: Sums = { periods: 0, judged: 0, missed: 0, due_ns: 0, delivered_ns: 0 };

// What a VM did in one second.
export interface Sample {
  judged: number;
  missed: number;
  due_ns: number;
  delivered_ns: number;
  // CPU time, and time in which a thread was runnable without a CPU. Share of a CPU.
  used: number;
  waited: number;
}

export const host = signal<Host | undefined>(undefined);
export const caller = signal<Caller | undefined>(undefined);
export const vms = signal<ReadonlyMap<string, Vm>>(new Map());
export const samples = signal<ReadonlyMap<string, readonly Sample[]>>(new Map());
export const changes = signal<readonly HostEvent[]>([]);
// Time of the last message of the service by the clock of the browser; `undefined`: there was none yet. Unit: ms.
export const heard = signal<number | undefined>(undefined);
export const now = signal(Date.now());
// The rows that are marked for a change of several VMs.
export const marked = signal<ReadonlySet<string>>(new Set());
// The VM whose editor is open, and whether the editor is for all marked VMs.
export const edited = signal<string | undefined>(undefined);

// Silence after which the values count as old. The service sends usage once a second. Unit: ms.
const OLD_AFTER = 3_500;

// Seconds since the service was heard; `undefined`: the values are fresh.
export const oldFor = computed(() => {
  const age = now.value - (heard.value ?? now.value - OLD_AFTER - 1);
  return age > OLD_AFTER ? Math.round(age / 1_000) : undefined;
});

export const mayChange = computed(() => {
  const role = caller.value?.role;
  return role !== undefined && role !== "view";
});

// Returns what is promised to a VM as a share of a CPU.
export function promised(desired: Desired): number {
  const promise = desired.promise;
  return promise && !desired.paused ? promise.slice_ns / promise.period_ns : 0;
}

const lastSums = new Map<string, Sums>();
let lastUsages: Usages | undefined;

export function takeVms(live: LiveVms, isFirst: boolean): void {
  const next = new Map(isFirst ? [] : vms.value);
  for (const vm of live.vms) next.set(vm.id, vm);
  for (const id of live.gone) {
    next.delete(id);
    lastSums.delete(id);
  }
  batch(() => {
    vms.value = next;
    heard.value = Date.now();
    if (live.gone.length > 0) {
      marked.value = new Set([...marked.value].filter((id) => next.has(id)));
      const kept = new Map(samples.value);
      for (const id of live.gone) kept.delete(id);
      samples.value = kept;
    }
  });
}

// Takes over the CPU times, once a second, and makes a sample of each VM.
export function takeUsages(usages: Usages): void {
  const before = new Map(lastUsages?.vms.map((usage) => [usage.id, usage]));
  const elapsed = usages.at_ns - (lastUsages?.at_ns ?? usages.at_ns);
  lastUsages = usages;
  const used = new Map(usages.vms.map((usage) => [usage.id, usage]));
  const next = new Map(samples.value);
  for (const vm of vms.value.values()) {
    const [usage, earlier] = [used.get(vm.id), before.get(vm.id)];
    const isSame = usage !== undefined && earlier !== undefined && usage.pid === earlier.pid && elapsed > 0;
    const since = (key: "ran_ns" | "waited_ns") =>
      isSame
        ? Math.max(0, usage.of_vcpus[key] + usage.of_others[key] - earlier.of_vcpus[key] - earlier.of_others[key]) / elapsed
        : 0;
    const { judged, missed, due_ns, delivered_ns, periods } = vm.measured;
    const sums = { periods, judged, missed, due_ns, delivered_ns };
    const old = lastSums.get(vm.id);
    lastSums.set(vm.id, sums);
    // A new promise is measured anew.
    const isNew = old !== undefined && old.periods > periods;
    const last = isNew ? NOTHING : (old ?? sums);
    const sample: Sample = {
      judged: judged - last.judged,
      missed: missed - last.missed,
      due_ns: due_ns - last.due_ns,
      delivered_ns: delivered_ns - last.delivered_ns,
      used: since("ran_ns"),
      waited: since("waited_ns"),
    };
    next.set(vm.id, [...(next.get(vm.id) ?? []), sample].slice(-SAMPLES));
  }
  batch(() => {
    samples.value = next;
    heard.value = Date.now();
  });
}

export function takeEvent(event: HostEvent): void {
  heard.value = Date.now();
  if (event.event === "changed" && !changes.value.some((known) => known.number === event.number)) {
    changes.value = [event, ...changes.value].slice(0, CHANGES);
  }
}

// Returns the newest sample of a VM.
export function latest(id: string): Sample | undefined {
  return samples.value.get(id)?.at(-1);
}
