// The editor: the draft for the selected VMs, the answer of the service to it, and its way to the service.

import { batch, computed, effect, signal } from "@preact/signals";
import type { Desired, Observation, Problem, Vm } from "./api";
import { dryRun, get, problemOf, put } from "./client";
import { applied, isEmpty, simplified, type Draft, type Mistake } from "./draft";
import { latestOnly } from "./pacing";
import { appliedPrediction, forget, predict, prediction, unpredict } from "./prediction";
import { arrangement, caller, host, mayChange, rows, selected } from "./store";

/** Time without input before the service is asked; the answer is wanted within 50 ms. Unit: ms. */
const PAUSE_MS = 40;
/** At most ten direct changes a second. Unit: ms. */
const LIVE_MS = 100;
/** Length of the observation after a change. Unit: ms. */
const OBSERVED_MS = 1000;

/** The answer of admission control for a VM. */
export interface Answer {
  id: string;
  name: string;
  problem?: Problem;
  /** What keeps the promise. */
  mechanism?: string;
  /** What was desired before a change. */
  before?: Desired;
  /** Whether the promise ended to make room for another one. */
  hasEnded?: boolean;
  /** Whether the change has undone another one. */
  isUndone?: boolean;
}

export type Verdict =
  | { is: "nothing" }
  | { is: "asking" }
  | { is: "wrong"; mistakes: Mistake[] }
  | { is: "answered"; answers: Answer[]; isOutdated: boolean };

export const draft = signal<Draft>({});
/** The generation of each VM on which the draft is based. */
const bases = new Map<string, number>();
export const verdict = signal<Verdict>({ is: "nothing" });
/** Whether every input changes the VM at once. */
export const isLive = signal(false);
export const isApplying = signal(false);
/** Whether the draft has kept other VMs from being selected. */
export const isHeld = signal(false);
/** What the last change of each VM came to. */
export const outcome = signal<Answer[]>([]);
export const observation = signal<{ id: string; observed?: Observation; problem?: Problem } | undefined>(undefined);

/** The selected VMs that exist. */
export const vms = computed<Vm[]>(() => {
  arrangement.value;
  return selected.value.flatMap((id) => rows.get(id)?.vm.value ?? []);
});
let lastBasis: Vm[] = [];
/** The selected VMs as they were when they came or were last changed: the same array while only measurements change. */
export const basis = computed<Vm[]>(() => {
  const now = vms.value;
  const isSame = now.length === lastBasis.length && now.every((vm, at) => isUnchanged(vm, lastBasis[at]));
  if (!isSame) lastBasis = now;
  return lastBasis;
});

function isUnchanged(vm: Vm, before: Vm | undefined): boolean {
  return vm.id === before?.id && vm.generation === before.generation && vm.process?.pid === before.process?.pid;
}

export const isEditable = computed(() => basis.value.length > 0 && basis.value.every((vm) => mayChange(caller.value, vm)));
export const isDirty = computed(() => !isEmpty(draft.value));
/** VMs that another client has changed since the draft began. */
export const conflicts = computed(() => {
  draft.value;
  return isDirty.value ? basis.value.filter((vm) => bases.get(vm.id) !== vm.generation) : [];
});

/** Changes fields of the draft. */
export function edit(change: Draft): void {
  const all = vms.peek();
  if (!isEditable.peek()) return;
  if (isEmpty(draft.peek())) for (const vm of all) bases.set(vm.id, vm.generation);
  batch(() => {
    draft.value = simplified({ ...draft.peek(), ...change }, all.map(({ desired }) => desired));
    outcome.value = [];
    check();
  });
}

/** Drops the draft. */
export function revert(): void {
  batch(() => {
    draft.value = {};
    isHeld.value = false;
    outcome.value = [];
    forget();
    verdict.value = { is: "nothing" };
  });
}

/** Puts the draft on top of the changes of other clients. */
export function rebase(): void {
  for (const vm of vms.peek()) bases.set(vm.id, vm.generation);
  draft.value = simplified(draft.peek(), vms.peek().map(({ desired }) => desired));
  check();
}

/** Returns the desired state of each selected VM after the draft, or the mistakes. */
function wanted(): { vm: Vm; desired: Desired }[] | Mistake[] {
  const results: { vm: Vm; desired: Desired }[] = [];
  for (const vm of vms.peek()) {
    const desired = applied(draft.peek(), vm.desired, host.peek()?.promisable_percent);
    if (Array.isArray(desired)) return desired;
    results.push({ vm, desired });
  }
  return results;
}

function isWrong(results: ReturnType<typeof wanted>): results is Mistake[] {
  return results.length > 0 && "field" in (results[0] as object);
}

/** Checks the draft here, and then asks the service, or changes the VM if the switch Live is on. */
function check(): void {
  if (isEmpty(draft.peek())) {
    verdict.value = { is: "nothing" };
    return;
  }
  const results = wanted();
  if (isWrong(results)) {
    verdict.value = { is: "wrong", mistakes: results };
    unpredict();
    return;
  }
  const before = verdict.peek();
  verdict.value = before.is === "answered" ? { ...before, isOutdated: true } : { is: "asking" };
  if (isLive.peek()) steer();
  else {
    predict(results);
    ask();
  }
}

let request = new AbortController();

const ask = latestOnly(
  async () => {
    const asked = draft.peek();
    const results = wanted();
    if (isWrong(results) || isEmpty(asked)) return;
    request = new AbortController();
    const answers: Answer[] = [];
    for (const { vm, desired } of results) answers.push(await answer(vm, desired));
    // A draft that was reverted meanwhile has no answer.
    if (isEmpty(draft.peek())) return;
    verdict.value = { is: "answered", answers, isOutdated: draft.peek() !== asked };
  },
  { pause: PAUSE_MS, interval: 0 },
);

async function answer(vm: Vm, desired: Desired): Promise<Answer> {
  const named = { id: vm.id, name: vm.name };
  try {
    const { state } = await dryRun({ id: vm.id, generation: bases.get(vm.id), desired }, request.signal);
    return { ...named, ...(state.mechanism ? { mechanism: state.mechanism } : {}) };
  } catch (error) {
    return { ...named, problem: problemOf(error) };
  }
}

const steer = latestOnly(
  async () => {
    if (!isEmpty(draft.peek()) && isLive.peek()) await send({ isDirect: true });
  },
  { pause: 0, interval: LIVE_MS },
);

/** Sends the draft, VM by VM. A VM that refuses keeps the draft. */
export async function apply(): Promise<void> {
  if (isApplying.peek() || !isEditable.peek() || isEmpty(draft.peek())) return;
  await send({ isDirect: false });
}

async function send({ isDirect }: { isDirect: boolean }): Promise<void> {
  const sent = draft.peek();
  const results = wanted();
  if (isWrong(results)) return;
  isApplying.value = !isDirect;
  const answers: Answer[] = [];
  for (const { vm, desired } of results) answers.push(await change(vm, desired, bases.get(vm.id)));
  const refused = answers.filter(({ problem }) => problem);
  batch(() => {
    isApplying.value = false;
    outcome.value = isDirect ? [] : answers;
    verdict.value = { is: "answered", answers, isOutdated: false };
    // Input that came meanwhile stays a draft.
    if (refused.length === 0) {
      appliedPrediction.value = prediction.peek();
      draft.value = draft.peek() === sent ? {} : simplified(draft.peek(), vms.peek().map(({ desired }) => desired));
    } else selected.value = isDirect ? selected.peek() : refused.map(({ id }) => id);
  });
  if (refused.length === 0 && !isDirect) {
    forget();
    void observe();
  }
}

async function change(vm: Vm, desired: Desired, generation: number | undefined): Promise<Answer> {
  const named = { id: vm.id, name: vm.name };
  try {
    const changed = await put({ id: vm.id, generation, desired });
    bases.set(vm.id, changed.generation);
    // The reply is newer than the stream, and the next change needs its generation.
    const row = rows.get(vm.id);
    if (row) row.vm.value = changed;
    return { ...named, before: vm.desired, ...(changed.state.mechanism ? { mechanism: changed.state.mechanism } : {}) };
  } catch (error) {
    return { ...named, problem: problemOf(error) };
  }
}

/** Sets what was desired before the draft was applied. */
export async function undoApplied(): Promise<void> {
  const answers: Answer[] = [];
  isApplying.value = true;
  for (const { id, before } of outcome.peek()) {
    const vm = rows.get(id)?.vm.peek();
    if (vm && before) answers.push({ ...(await change(vm, before, bases.get(id))), isUndone: true });
  }
  batch(() => {
    isApplying.value = false;
    outcome.value = answers;
    verdict.value = { is: "answered", answers, isOutdated: false };
  });
}

/** Takes an alternative of a refusal, and applies the draft. */
export async function take(alternative: { slice: string } | { period: string } | { endOf: string }): Promise<void> {
  let ended: Answer | undefined;
  if ("endOf" in alternative) {
    const other = [...rows.values()].map(({ vm }) => vm.peek()).find(({ name }) => name === alternative.endOf);
    if (!other) return;
    const { promise: _, ...rest } = other.desired;
    ended = { ...(await change(other, rest, other.generation)), hasEnded: true };
    if (ended.problem) {
      outcome.value = [ended];
      return;
    }
  } else edit(alternative);
  await apply();
  // An undo makes room first, and gives the ended promise back afterwards.
  if (ended) outcome.value = [...outcome.peek(), ended];
}

/** Observes the selected VM. */
export async function observe(): Promise<void> {
  const [vm] = vms.peek();
  if (!vm?.process || vms.peek().length !== 1) return;
  observation.value = { id: vm.id };
  try {
    const path = `/v1/vms/${encodeURIComponent(vm.id)}/observation?length_ms=${OBSERVED_MS}`;
    observation.value = { id: vm.id, observed: await get<Observation>(path) };
  } catch (error) {
    observation.value = { id: vm.id, problem: problemOf(error) };
  }
}

/** Selects VMs, unless a draft would be lost. */
export function trySelect(ids: readonly string[]): boolean {
  isHeld.value = isDirty.peek();
  if (!isDirty.peek()) select(ids);
  return !isDirty.peek();
}

/** Selects the VMs to edit. The draft for other VMs is dropped. */
export function select(ids: readonly string[]): void {
  batch(() => {
    selected.value = ids;
    observation.value = undefined;
    appliedPrediction.value = undefined;
    isLive.value = false;
  });
}

/** Drops the draft when the selection changes. A selection after a refusal keeps it. */
let shown = "";
effect(() => {
  const now = selected.value.join("\n");
  const isPart = selected.value.length > 0 && selected.value.every((id) => shown.split("\n").includes(id));
  shown = now;
  if (!isPart) revert();
});
