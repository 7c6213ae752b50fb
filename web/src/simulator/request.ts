// Requests to the module of the simulator and their results, as in crates/wasm.

/** A request for runs of a scenario. */
export interface Request {
  /** Name of the file of the scenario, which errors contain. */
  name?: string;
  /** The scenario: TOML as in docs/scenarios.md. */
  scenario: string;
  /** The files to which the scenario refers, by their paths. */
  files?: Record<string, string>;
  /** The policies, one run each; empty: the policy of the scenario. */
  policies?: string[];
  /** Settings of the policies: `NAME=VALUE` or `POLICY.NAME=VALUE`. */
  knobs?: string[];
  seed?: number;
  length_ns?: number;
  /** The picture of each run. Without it, nothing is drawn. */
  picture?: { from_ns?: number; to_ns?: number; width?: number };
  /** Whether the trace of each run is returned. */
  trace?: boolean;
}

/** The results of a request. */
export interface Simulated {
  /** The reports, as the text that `tactus sim --json` prints. */
  json: string;
  /** A picture of each run as an SVG document. All pictures have one time axis. */
  pictures: string[];
  /** Left edge and width of the plots of the pictures, in pixels. */
  plot_px: [number, number];
  /** The trace of each run. */
  traces: string[];
  /** The part of the run that the pictures show. */
  shown_ns: [number, number];
  length_ns: number;
}

/** A part of a text, in UTF-16 code units. */
export interface Part {
  from: number;
  to: number;
  label: string;
}

/** An error in a request. */
export interface Complaint {
  reason: string;
  /** What to do, in the imperative; empty without a remedy. */
  remedy: string;
  /** `file:line:column`, or the name of the file; empty if the request itself is wrong. */
  place: string;
  /** The parts of the text that are underlined, the main part first. */
  parts: Part[];
}

/** A setting of a policy. The value of a choice is an index into `words`. */
export interface Knob {
  name: string;
  unit: "ns" | "count" | "percent" | "switch" | "choice";
  default: number;
  least: number;
  most: number;
  words?: string[];
  help: string;
  source: string;
}

/** A policy, as `tactus policies --json` prints it. */
export interface Policy {
  name: string;
  title: string;
  good_for: string;
  bad_at: string;
  knobs: Knob[];
  text: string;
}

/** The simulated time of the present run, and its length. */
export type OnProgress = (now_ns: number, end_ns: number) => void;

/** A message to the worker: the module first, then calls. */
export type Call =
  | { module: WebAssembly.Module }
  | { id: number; run: string }
  | { id: number; preview: string }
  | { id: number; policies: true };

/** A message of the worker about the call `id`. */
export type Answer =
  | { id: number; progress: [number, number] }
  | { id: number; done: string }
  | { id: number; refused: string }
  | { id: number; trapped: string };
