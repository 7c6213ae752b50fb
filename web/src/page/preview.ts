// The preview: what the VMs would receive, from the bursts of their threads, by the simulator in a worker.

import { signal } from "@preact/signals";
import { Simulator } from "../simulator/simulator";
import { served } from "../simulator/source";
import { type Demand, type Desired, read, type ThreadDemand } from "./api";
import { host, vms } from "./store";

export interface Predicted {
  id: string;
  is_assumed: boolean;
  judged: number;
  missed: number;
  delivered_ppm: number;
  wakeups: number;
  wakeup_p99_ns: number;
  wait_p99_ns: number;
}

export type Prediction =
  | { kind: "predicted"; horizon_ns: number; isCut: boolean; of: Predicted; others: Predicted[] }
  | { kind: "unavailable"; reason: string };

// The files of the simulator on the service.
const [WORKER, MODULE] = ["/simulator.js", "/simulator.wasm"];

// The simulator; `undefined`: the program was built without it. It is loaded for the first preview.
let simulator: Promise<Simulator | undefined> | undefined;

async function load(): Promise<Simulator | undefined> {
  const reply = await fetch(WORKER, { method: "HEAD" }).catch(() => undefined);
  return reply?.ok ? new Simulator(served(WORKER, MODULE)) : undefined;
}

// The reply of the simulator (crates/wasm).
interface Preview {
  horizon_ns: number;
  is_cut: boolean;
  vms: Predicted[];
}

// Bursts that a thread keeps: those of the last 10 s, at most 1,000. Length of one observation. Unit: ms.
const BURSTS = 1_000;
const OBSERVATION = 1_000;
const OBSERVATIONS = 10;

// The latest observations of the demand of all VMs, the newest last.
const observations = signal<readonly Demand[]>([]);
let observing: Promise<void> | undefined;
let observedFor: string | undefined;

// Observes the demand of all VMs while an editor is open for `vm`.
export function demandOf(vm: string | undefined): Promise<void> {
  observedFor = vm;
  observing ??= observe().finally(() => (observing = undefined));
  return observing;
}

async function observe(): Promise<void> {
  while (observedFor !== undefined) {
    try {
      const demand = await read<Demand>(`/v1/demand?length_ms=${OBSERVATION}`);
      observations.value = [...observations.value, demand].slice(-OBSERVATIONS);
      // Without the privilege to record, another attempt gives nothing new.
      if (demand.unrecorded) return;
    } catch {
      return;
    }
  }
}

// Returns the threads of all VMs with their bursts of the last observations.
function threads(): Map<string, ThreadDemand[]> {
  const all = new Map<string, Map<number, ThreadDemand>>();
  for (const { vms } of observations.value) {
    for (const { id, threads } of vms) {
      const known = all.get(id) ?? new Map<number, ThreadDemand>();
      for (const thread of threads) {
        const bursts = [...(known.get(thread.tid)?.bursts ?? []), ...thread.bursts].slice(-BURSTS);
        known.set(thread.tid, { ...thread, bursts });
      }
      all.set(id, known);
    }
  }
  return new Map([...all].map(([id, known]) => [id, [...known.values()]]));
}

// Returns what the VMs would receive if `desired` were in force for the VM `id`.
export async function predict(id: string, desired: Desired): Promise<Prediction> {
  const loaded = await (simulator ??= load());
  if (!loaded) return { kind: "unavailable", reason: "This program was built without the simulator." };
  const known = threads();
  const unknown = [{ is_vcpu: true, is_observed: false, bursts: [] }];
  const request = {
    cpus: host.peek()?.cpus ?? 1,
    promisable_percent: host.peek()?.promisable_percent ?? 90,
    vms: [...vms.peek().values()]
      .filter((vm) => vm.process !== undefined || vm.id === id)
      .map((vm) => ({
        id: vm.id,
        desired: vm.id === id ? desired : vm.state.phase === "refused" ? { paused: false } : vm.desired,
        threads: known.get(vm.id) ?? unknown,
      })),
  };
  try {
    const { horizon_ns, is_cut, vms } = await loaded.preview<Preview>(request);
    const of = vms.find((vm) => vm.id === id);
    if (!of) return { kind: "unavailable", reason: "The VM has ended." };
    return { kind: "predicted", horizon_ns, isCut: is_cut, of, others: vms.filter((vm) => vm.id !== id) };
  } catch (error) {
    const complaints = Array.isArray(error) ? (error as { reason: string }[]) : [];
    return { kind: "unavailable", reason: complaints[0]?.reason ?? "The preview has failed." };
  }
}
