// The preview: what the host would do with other promises, from a simulator.

import { signal } from "@preact/signals";
import type { Cpus, Demand, Desired, Host, HostPolicy, Vm } from "./api";

/** The demand of a VM. */
interface OfVm {
  period_left_ns?: number;
  threads: { is_vcpu: boolean; is_observed: boolean; bursts: [number, number, number][] }[];
}

/** The host with its VMs, as the module `preview` of the crate `wasm` reads it. */
export interface PreviewRequest {
  cpus: number;
  policy: HostPolicy;
  simulated: boolean;
  observed_ns: number;
  vms: ({ id: string; desired: Desired; cpus: number[]; is_changed: boolean } & OfVm)[];
}

/** What is known of the host beside its VMs. */
export interface Observed {
  host: Host;
  policy: HostPolicy;
  cpus: Cpus;
  demand: Demand;
}

export interface Predicted {
  id: string;
  /** Whether the demand of a thread is not known, so that it counts as always runnable. */
  is_assumed: boolean;
  judged: number;
  missed: number;
  delivered_ppm: number;
  wait_p99_ns: number;
  wait_max_ns: number;
}

export interface Prediction {
  horizon_ns: number;
  /** Whether the simulated time is shorter than usual. */
  is_cut: boolean;
  vms: Predicted[];
}

/** A simulator. The next request cancels the one before, whose promise then never settles. */
export interface Preview {
  preview(request: PreviewRequest): Promise<Prediction>;
}

/** The simulator; `undefined`: this build has none. */
export const simulator = signal<Preview | undefined>(undefined);

/** A VM of unknown demand counts as always runnable. */
const UNKNOWN: OfVm = { threads: [{ is_vcpu: true, is_observed: false, bursts: [] }] };
const NOTHING: Desired = { paused: false };

/** Returns the host as it would be with other desired states of some VMs, by id. Of the others, what is in force counts. */
export function previewRequest(
  { host, policy, cpus, demand }: Observed,
  vms: readonly Vm[],
  changes: ReadonlyMap<string, Desired>,
): PreviewRequest {
  const demands = new Map<string, OfVm>(demand.vms.map((vm) => [vm.id, vm]));
  const cpusOf = (id: string) => cpus.cpus.filter(({ promises }) => promises.some(({ vm }) => vm === id)).map(({ cpu }) => cpu);
  const running = vms.filter((vm) => vm.process);
  return {
    cpus: host.cpus,
    policy,
    simulated: host.simulated ?? false,
    observed_ns: demand.length_ns,
    vms: running.map((vm) => {
      const { period_left_ns, threads } = demands.get(vm.id) ?? UNKNOWN;
      return {
        id: vm.id,
        desired: changes.get(vm.id) ?? (vm.state.phase === "refused" ? NOTHING : vm.desired),
        cpus: cpusOf(vm.id),
        is_changed: changes.has(vm.id),
        ...(period_left_ns === undefined ? {} : { period_left_ns }),
        threads: threads.map(({ is_vcpu, is_observed, bursts }) => ({ is_vcpu, is_observed, bursts })),
      };
    }),
  };
}
