// The prediction for the draft of the editor: from the demand of all VMs, by the simulator.

import { effect, signal, untracked } from "@preact/signals";
import type { Cpus, Demand, Desired, Vm } from "./api";
import { get } from "./client";
import { latestOnly } from "./pacing";
import { previewRequest, simulator, type Prediction } from "./preview";
import { host, rows } from "./store";

export const prediction = signal<Prediction | undefined>(undefined);
/** Reason why there is no prediction. */
export const unpredicted = signal("");
/** The prediction that was shown when the draft was applied, beside which the observation is put. */
export const appliedPrediction = signal<Prediction | undefined>(undefined);

/** Lengths of the observations of the demand: the first prediction comes soon, the next ones are better. Unit: ms. */
const [FIRST_MS, FULL_MS] = [1_000, 10_000];
/** Pause after an observation that failed: a service has few observations at once. Unit: ms. */
const RETRY_MS = 2_000;

interface Known {
  demand: Demand;
  cpus: Cpus;
}

let known: Promise<Known> | undefined;
/** Ends the observations of a draft. */
let observing = new AbortController();
/** The changes of the draft. */
let changes: ReadonlyMap<string, Desired> = new Map();

/** Predicts what the host does with other desired states of some VMs. */
export function predict(changed: { vm: Vm; desired: Desired }[]): void {
  changes = new Map(changed.map(({ vm, desired }) => [vm.id, desired]));
  start();
}

/** A draft may be there before the simulator, which is loaded after the page. */
effect(() => {
  if (simulator.value && host.value?.policy) untracked(() => changes.size > 0 && known === undefined && start());
});

function start(): void {
  if (!simulator.peek() || !host.peek()?.policy) return;
  if (known === undefined) {
    // A simulated host has seen the demand already.
    known = observe(host.peek()?.simulated ? FULL_MS : FIRST_MS);
    void keepObserving(known);
  }
  show();
}

/** Drops the prediction. The demand is observed again for the next one. */
export function forget(): void {
  observing.abort();
  observing = new AbortController();
  [prediction.value, unpredicted.value] = [undefined, ""];
  [known, changes] = [undefined, new Map()];
}

/** Drops the prediction for a draft that has none. */
export function unpredict(): void {
  [prediction.value, unpredicted.value, changes] = [undefined, "", new Map()];
}

async function observe(length: number): Promise<Known> {
  const { signal } = observing;
  const observed = get<Demand>(`/v1/demand?length_ms=${length}`, signal);
  const [demand, cpus] = await Promise.all([observed, get<Cpus>("/v1/cpus", signal)]);
  return { demand, cpus };
}

/** Observes the demand again and again, as long as it is used. */
async function keepObserving(first: Promise<Known>): Promise<void> {
  const isSimulated = host.peek()?.simulated;
  for (let last = first, pause = isSimulated ? FULL_MS : 0; known === last; pause = FULL_MS) {
    const hasFailed = await last.then(() => false, () => true);
    await sleep(hasFailed ? RETRY_MS : pause);
    if (known !== last) return;
    const next = observe(hasFailed && !isSimulated ? FIRST_MS : FULL_MS);
    // A failure leaves the demand of before.
    const isKnown = await next.then(() => true, () => false);
    if (known !== last) return;
    if (!isKnown && !hasFailed) {
      await sleep(RETRY_MS);
      continue;
    }
    known = last = next;
    show();
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Shows the prediction for the latest changes. One preview runs at a time. */
const show = latestOnly(
  async () => {
    const [from, there] = [known, host.peek()];
    if (!from || !there?.policy) return;
    const isCurrent = () => known === from && changes.size > 0;
    try {
      const { demand, cpus } = await from;
      if (!isCurrent()) return;
      const all = Array.from(rows.values(), ({ vm }) => vm.peek());
      const request = previewRequest({ host: there, policy: there.policy, cpus, demand }, all, changes);
      const predicted = await simulator.peek()?.preview(request);
      if (isCurrent()) [prediction.value, unpredicted.value] = [predicted, ""];
    } catch (error) {
      if (isCurrent()) [prediction.value, unpredicted.value] = [undefined, reasonOf(error)];
    }
  },
  { pause: 0, interval: 0 },
);

/** Returns the reason of a complaint of the simulator, of a problem of the service, or of an error. */
function reasonOf(error: unknown): string {
  const first: unknown = Array.isArray(error) ? error[0] : error;
  const { reason, remedy, message } = first as { reason?: string; remedy?: string; message?: string };
  return reason ? [reason, remedy].filter(Boolean).join("; ") : (message ?? String(first));
}
