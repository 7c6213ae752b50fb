// A change that the user prepares: typed values, and what the service and the simulator say of them.

import { batch, computed, effect, type ReadonlySignal, signal, untracked } from "@preact/signals";
import { type Desired, type Problem, Refused, set, type Vm } from "./api";
import { demandOf, predict, type Prediction } from "./preview";
import { vms } from "./store";
import { parseTime, time } from "./units";

// Range of the sliders. Unit: ns. Typed values may be outside of it.
export const SLICE = [10e3, 1e9] as const;
export const PERIOD = [100e3, 10e9] as const;

// Activities and what they need, by figure 11 of VSched (SC 2005): the longest period with 1 ms at which the most sensitive
// user found the activity good, or for video the best of the figure. The batch VM is that of section 5.
export const PRESETS = [
  { name: "game with sound", slice_ns: 1e6, period_ns: 6e6 },
  { name: "music", slice_ns: 1e6, period_ns: 7e6 },
  { name: "video with sound", slice_ns: 1e6, period_ns: 5e6 },
  { name: "web", slice_ns: 1e6, period_ns: 7e6 },
  { name: "batch", slice_ns: 60e9, period_ns: 600e9 },
] as const;

export interface Fields {
  isPromised: boolean;
  slice: string;
  period: string;
  cpus: string;
  gang: boolean;
  hard: boolean;
  weight: string;
  cap: string;
}

const NOTHING: Fields = {
  isPromised: false,
  slice: "2ms",
  period: "10ms",
  cpus: "1",
  gang: false,
  hard: false,
  weight: "",
  cap: "",
};

export function fieldsOf({ promise, weight, cap_percent }: Desired): Fields {
  const share = { weight: weight?.toString() ?? "", cap: cap_percent?.toString() ?? "" };
  if (!promise) return { ...NOTHING, ...share };
  return {
    ...share,
    isPromised: true,
    slice: time(promise.slice_ns),
    period: time(promise.period_ns),
    cpus: String(promise.cpus),
    gang: promise.gang,
    hard: promise.limit === "hard",
  };
}

export type FieldErrors = Partial<Record<keyof Fields, string>>;

const whole = (text: string, most: number): number | string => {
  const number = Number(text);
  return /^\d+$/.test(text.trim()) && number >= 1 && number <= most ? number : `use a whole number, 1 to ${most}`;
};

// Returns what typed values ask for, or an error for each wrong value. `before` has what the form does not show.
export function desiredOf(fields: Fields, before: Desired): Desired | FieldErrors {
  const errors: FieldErrors = {};
  const checked = (name: keyof Fields, value: number | string): number => {
    if (typeof value === "number") return value;
    errors[name] = value;
    return 0;
  };
  const desired: Desired = { paused: before.paused };
  if (fields.isPromised) {
    desired.promise = {
      slice_ns: checked("slice", parseTime(fields.slice)),
      period_ns: checked("period", parseTime(fields.period)),
      cpus: checked("cpus", whole(fields.cpus, 256)),
      gang: fields.gang,
      limit: fields.hard ? "hard" : "soft",
      mechanism: before.promise?.mechanism ?? "auto",
    };
  }
  if (fields.weight.trim() !== "") desired.weight = checked("weight", whole(fields.weight, 10_000));
  if (fields.cap.trim() !== "") desired.cap_percent = checked("cap", whole(fields.cap, 102_400));
  return Object.keys(errors).length > 0 ? errors : desired;
}

export const isDesired = (value: Desired | FieldErrors): value is Desired => "paused" in value;

// What the service says of a draft.
export type Verdict = { kind: "asking" } | { kind: "fits" } | { kind: "refused"; problem: Problem };

// Pause after the last input before the service is asked. Unit: ms.
const PAUSE = 40;

// A change of one VM that is being prepared.
export class Draft {
  readonly fields = signal<Fields>(NOTHING);
  readonly verdict = signal<Verdict>({ kind: "asking" });
  readonly prediction = signal<Prediction | undefined>(undefined);
  // What happened to the last attempt to apply the draft.
  readonly outcome = signal<{ isDone: boolean; text: string } | undefined>(undefined);
  // Whether the draft is applied while it changes.
  readonly isLive = signal(false);
  readonly wanted: ReadonlySignal<Desired | FieldErrors>;
  readonly isChanged: ReadonlySignal<boolean>;
  // The VM as it was when the form was filled in.
  readonly base = signal<Vm>(undefined as unknown as Vm);
  #asking: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #stop: () => void;

  constructor(readonly vm: Vm) {
    this.base.value = vm;
    this.fields.value = fieldsOf(vm.desired);
    this.wanted = computed(() => desiredOf(this.fields.value, this.base.value.desired));
    this.isChanged = computed(() => JSON.stringify(this.fields.value) !== JSON.stringify(fieldsOf(this.base.value.desired)));
    void demandOf(vm.id);
    this.#stop = effect(() => {
      const [wanted, base] = [this.wanted.value, this.base.value];
      // A draft that goes live is asked for again, and applied.
      void this.isLive.value;
      clearTimeout(this.#timer);
      if (isDesired(wanted)) this.#timer = setTimeout(() => untracked(() => void this.#ask(wanted, base)), PAUSE);
    });
  }

  // Ends the draft. Nothing changes.
  end(): void {
    this.#stop();
    clearTimeout(this.#timer);
    this.#asking?.abort();
  }

  edit(change: Partial<Fields>): void {
    batch(() => {
      this.outcome.value = undefined;
      this.fields.value = { ...this.fields.peek(), ...change };
    });
  }

  // Fills in the form again with what is desired now.
  revert(): void {
    const vm = vms.peek().get(this.vm.id) ?? this.vm;
    batch(() => {
      this.base.value = vm;
      this.fields.value = fieldsOf(vm.desired);
      this.outcome.value = undefined;
    });
  }

  async #ask(desired: Desired, vm: Vm): Promise<void> {
    this.#asking?.abort();
    const asking = (this.#asking = new AbortController());
    const says = set({ vm, desired, dryRun: true, signal: asking.signal }).then(
      (): Verdict => ({ kind: "fits" }),
      (error: unknown): Verdict | undefined =>
        error instanceof Refused ? { kind: "refused", problem: error.problem } : undefined,
    );
    const predicted = predict(vm.id, desired);
    const verdict = await says;
    if (verdict && !asking.signal.aborted) this.verdict.value = verdict;
    const prediction = await predicted;
    if (!asking.signal.aborted) this.prediction.value = prediction;
    if (this.isLive.peek() && this.isChanged.peek() && verdict?.kind === "fits" && !asking.signal.aborted) await this.apply();
  }

  // Applies the draft, unless another client has changed the VM since the form was filled in.
  async apply(): Promise<void> {
    const desired = this.wanted.peek();
    if (!isDesired(desired)) return;
    try {
      const vm = await set({ vm: this.base.peek(), desired, reason: "page" });
      batch(() => {
        this.base.value = vm;
        vms.value = new Map(vms.peek()).set(vm.id, vm);
        this.outcome.value = { isDone: true, text: "The change is in force." };
        if (vm.state.phase === "refused" || vm.state.phase === "waiting") {
          const text = [vm.state.reason, vm.state.remedy].filter(Boolean).join("; ");
          this.outcome.value = { isDone: false, text: `The change is stored, and not in force: ${text}` };
        }
      });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.#refused(error.problem);
    }
  }

  #refused(problem: Problem): void {
    if (problem.status === 412) {
      const text = "Another client has changed this VM. The form keeps your values; apply again to replace the other change.";
      batch(() => {
        this.base.value = vms.peek().get(this.vm.id) ?? this.base.peek();
        this.outcome.value = { isDone: false, text };
      });
      return;
    }
    batch(() => {
      this.verdict.value = { kind: "refused", problem };
      this.outcome.value = { isDone: false, text: problem.detail };
    });
  }
}
