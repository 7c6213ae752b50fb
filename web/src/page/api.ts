// Types of the REST interface, as in the crate `api`.

export type Limit = "soft" | "hard";
export type Mechanism = "auto" | "inherit" | "fifo" | "deadline";
export type Phase = "none" | "kept" | "not-kept" | "refused" | "paused" | "absent" | "waiting";
export type Role = "own" | "view" | "operate" | "admin";

export interface Promised {
  slice_ns: number;
  period_ns: number;
  cpus: number;
  gang: boolean;
  limit: Limit;
  mechanism: Mechanism;
}

export interface Desired {
  promise?: Promised;
  weight?: number;
  cap_percent?: number;
  paused: boolean;
}

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
  shortfalls: number[];
  lost: number;
}

export interface Vm {
  id: string;
  name: string;
  kind: "qemu" | "firecracker" | "cloud-hypervisor" | "process";
  process?: { pid: number; start_time: number; user: number };
  vcpus?: number[];
  generation: number;
  desired: Desired;
  source?: "client" | "label-file" | "libvirt";
  state: State;
  measured: Measured;
}

export interface LiveVms {
  at_ms: number;
  vms: Vm[];
  gone: string[];
}

export interface Host {
  version: string;
  cpus: number;
  promisable_percent?: number;
  policy?: HostPolicy;
  mechanisms: string[];
  core?: number;
  reason?: string;
  simulated?: boolean;
  warnings: string[];
}

export interface HostPolicy {
  name: string;
  knobs: Record<string, string>;
}

export interface Caller {
  name: string;
  role: Role;
}

export interface CpuTime {
  ran_ns: number;
  waited_ns: number;
  dispatches: number;
}

export interface Usage {
  id: string;
  pid: number;
  vcpus: number;
  of_vcpus: CpuTime;
  of_others: CpuTime;
}

export interface Usages {
  at_ns: number;
  vms: Usage[];
}

export interface Problem {
  title: string;
  status: number;
  detail: string;
  remedy?: string;
  alternatives?: { slice_ns?: number; period_ns?: number; end_of: string[] };
}

interface Numbered {
  number: number;
  at_ms: number;
  vm?: string;
}

export type Event = Numbered &
  (
    | { event: "appeared"; name: string; pid: number }
    | { event: "ended" }
    | { event: "changed"; by: string; desired: Desired; before?: Desired; generation?: number }
    | ({ event: "state" } & State)
    | { event: "core"; is_connected: boolean; reason?: string }
    | { event: "gap" }
  );

export interface PromisedPart {
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
  promises: PromisedPart[];
}

export interface Cpus {
  promisable_percent?: number;
  cpus: Cpu[];
  anywhere: PromisedPart[];
}

export interface TimeGrid {
  interval_ms: number;
  from_ms: number;
  length: number;
}

type Values = (number | null)[];

export interface Series {
  judged: Values;
  missed: Values;
  due_us: Values;
  delivered_us: Values;
  short_us: Values;
}

export interface History {
  grids: TimeGrid[];
  vms: { id: string; name: string; series: Series[] }[];
}

export interface RunThread {
  tid: number;
  name?: string;
  pid?: number;
  vm?: string;
  is_vcpu: boolean;
}

/** Start and end since the start of the timeline, in ns, and the index of the thread. */
export type Stretch = [number, number, number];

export interface Timeline {
  from_ns: number;
  length_ns: number;
  cpus: { cpu: number; stretches: Stretch[] }[];
  threads: RunThread[];
  unrecorded?: string;
  lost: number;
}

export interface Waits {
  count: number;
  p50_ns: number;
  p99_ns: number;
  longest_ns: number;
}

export interface ObservedThread extends CpuTime {
  tid: number;
  name: string;
  is_vcpu: boolean;
  cpu: number;
  dispatches: number;
  waits?: Waits;
  instead: { tid: number; name?: string; pid?: number; ran_ns: number }[];
}

export interface Observation {
  length_ns: number;
  threads: ObservedThread[];
  promise: Measured[];
  throttled_ns?: number;
  stolen_ns?: number;
  unrecorded?: string;
  lost: number;
}

export interface Demand {
  length_ns: number;
  vms: {
    id: string;
    period_left_ns?: number;
    threads: { tid: number; name: string; is_vcpu: boolean; is_observed: boolean; bursts: [number, number, number][] }[];
  }[];
  unrecorded?: string;
  lost: number;
}
