// The interface of the service: types of its replies (crates/api), and requests.

export interface Promised {
  slice_ns: number;
  period_ns: number;
  cpus: number;
  gang: boolean;
  limit: "soft" | "hard";
  mechanism: "auto" | "inherit" | "fifo" | "deadline";
}

export interface Desired {
  promise?: Promised;
  weight?: number;
  cap_percent?: number;
  paused: boolean;
}

export type Phase = "none" | "kept" | "not-kept" | "refused" | "paused" | "absent" | "waiting";

export interface State {
  phase: Phase;
  mechanism?: string;
  reason?: string;
  remedy?: string;
}

export interface Measured {
  periods: number;
  judged: number;
  missed: number;
  due_ns: number;
  delivered_ns: number;
  short_ns: number;
  lost: number;
}

export interface Vm {
  id: string;
  name: string;
  kind: string;
  process?: { pid: number; start_time: number; user: number };
  generation: number;
  desired: Desired;
  source?: "client" | "label-file" | "libvirt";
  state: State;
  measured: Measured;
}

export interface Host {
  version: string;
  cpus: number;
  promisable_percent?: number;
  mechanisms: string[];
  core?: number;
  reason?: string;
  warnings: string[];
}

export interface Caller {
  name: string;
  role: "own" | "view" | "operate" | "admin";
}

export interface CpuTime {
  ran_ns: number;
  waited_ns: number;
}

export interface Usages {
  at_ns: number;
  vms: { id: string; pid: number; vcpus: number; of_vcpus: CpuTime; of_others: CpuTime }[];
}

export interface LiveVms {
  at_ms: number;
  vms: Vm[];
  gone: string[];
}

export interface Part {
  vm: string;
  ppm: number;
}

export interface Cpu {
  cpu: number;
  core: number;
  package: number;
  llc?: number;
  node?: number;
  promised_ppm: number;
  promises: Part[];
}

export interface Cpus {
  promisable_percent?: number;
  cpus: Cpu[];
  anywhere: Part[];
}

export interface TimeGrid {
  interval_ms: number;
  from_ms: number;
  length: number;
}

export type Column = (number | null)[];

export interface Series {
  judged: Column;
  missed: Column;
  due_us: Column;
  delivered_us: Column;
  short_us: Column;
}

export interface History {
  grids: TimeGrid[];
  vms: { id: string; name: string; series: Series[] }[];
}

export interface Timeline {
  from_ns: number;
  length_ns: number;
  cpus: { cpu: number; stretches: [number, number, number][] }[];
  threads: { tid: number; name?: string; pid?: number; vm?: string; is_vcpu: boolean }[];
  unrecorded?: string;
  lost: number;
}

export interface Demand {
  length_ns: number;
  vms: { id: string; threads: ThreadDemand[] }[];
  unrecorded?: string;
  lost: number;
}

export interface ThreadDemand {
  tid: number;
  name: string;
  is_vcpu: boolean;
  is_observed: boolean;
  bursts: [number, number][];
}

// An event of the service, with the fields of its kind.
export interface HostEvent {
  number: number;
  at_ms: number;
  vm?: string;
  event: "appeared" | "ended" | "changed" | "state" | "core" | "gap";
  by?: string;
  desired?: Desired;
  before?: Desired;
  generation?: number;
  name?: string;
  reason?: string;
  is_connected?: boolean;
}

export interface Problem {
  status: number;
  title: string;
  detail: string;
  remedy?: string;
  alternatives?: { slice_ns?: number; period_ns?: number; end_of: string[] };
}

// A refused request. `problem.status` is 0 if the service did not answer.
export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

const SILENT: Problem = {
  status: 0,
  title: "No answer",
  detail: "the service does not answer",
  remedy: "check the service and the connection to it",
};

async function request<T>(path: string, init?: RequestInit): Promise<T> {
  const reply = await fetch(path, { cache: "no-store", ...init }).catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused(SILENT);
  });
  if (!reply.ok) {
    const problem = (await reply.json().catch(() => undefined)) as Problem | undefined;
    const title = reply.statusText || String(reply.status);
    throw new Refused(problem ?? { status: reply.status, title, detail: `the service replied ${reply.status} ${title}` });
  }
  return (await reply.json()) as T;
}

export const read = <T>(path: string, signal?: AbortSignal): Promise<T> =>
  request<T>(path, signal ? { signal } : undefined);

export interface Change {
  vm: Vm;
  desired: Desired;
  dryRun?: boolean;
  reason?: string;
  signal?: AbortSignal;
}

// Sets what is desired for a VM, unless another client has changed it since `vm` was read. A dry run changes nothing.
export function set({ vm, desired, dryRun, reason, signal }: Change): Promise<Vm> {
  const headers: Record<string, string> = { "Content-Type": "application/json", "If-Match": `"${vm.generation}"` };
  if (reason) headers["Tactus-Reason"] = encodeURIComponent(reason);
  const path = `/v1/vms/${encodeURIComponent(vm.id)}/desired${dryRun ? "?dry-run=true" : ""}`;
  return request<Vm>(path, { method: "PUT", headers, body: JSON.stringify(desired), ...(signal ? { signal } : {}) });
}
