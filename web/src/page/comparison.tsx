import type { Observation } from "./api";
import { isDirty, observation, observe, vms } from "./editor";
import { appliedPrediction, prediction, unpredicted } from "./prediction";
import type { Predicted } from "./preview";
import { simulator } from "./preview";
import { percent, shortDuration } from "./quantity";
import { host } from "./store";

/** Prediction and observation of the selected VM, side by side. */
export function Comparison() {
  const id = vms.value[0]?.id;
  const shown = (isDirty.value ? prediction.value : appliedPrediction.value) ?? prediction.value;
  const predicted = shown?.vms.find((vm) => vm.id === id);
  const there = observation.value?.id === id ? observation.value : undefined;
  const isRunning = there !== undefined && !there.observed && !there.problem;
  const observed = there?.observed;
  return (
    <section class="comparison" aria-labelledby="comparison">
      <header>
        <h3 id="comparison">Prediction and observation</h3>
        <button type="button" onClick={() => void observe()} disabled={isRunning || !vms.value[0]?.process}>
          {isRunning ? "Observing" : "Observe 1 s"}
        </button>
      </header>
      {!simulator.value && <p class="note">Preview is not available in this build.</p>}
      {isDirty.value && unpredicted.value && <p class="note">There is no prediction: {unpredicted.value}.</p>}
      {shown?.is_cut && <p class="note">The prediction is short: there are too many events.</p>}
      {predicted?.is_assumed && <p class="note">The demand of a thread is not known: it counts as always runnable.</p>}
      {(predicted || observed) && <Values predicted={predicted} horizon={shown?.horizon_ns} observed={observed} />}
      {observed && <Instead observed={observed} />}
      {there?.problem && <p class="problem">{there.problem.detail}</p>}
    </section>
  );
}

interface Compared {
  predicted: Predicted | undefined;
  /** Time of the prediction. Unit: ns. */
  horizon: number | undefined;
  observed: Observation | undefined;
}

function Values({ predicted, horizon, observed }: Compared) {
  const seen = observed && summary(observed);
  const lines: [string, string | undefined, string | undefined][] = [
    ["CPU time", predicted && percent(predicted.delivered_ppm / 1e6), seen && percent(seen.ran)],
    ["Missed periods", predicted && ratio(predicted.missed, predicted.judged), seen && ratio(seen.missed, seen.judged)],
    ["Wait for a CPU, p99", predicted && shortDuration(predicted.wait_p99_ns), seen?.p99],
    ["Wait for a CPU, longest", predicted && shortDuration(predicted.wait_max_ns), seen?.longest],
  ];
  return (
    <table class="pairs">
      <thead>
        <tr>
          <td />
          <th scope="col">{predicted && horizon ? `predicted for ${shortDuration(horizon)}` : "predicted"}</th>
          <th scope="col">
            {observed ? `observed for ${shortDuration(observed.length_ns)}` : "observed"}
            {observed && isDirty.value && ", before the draft"}
          </th>
        </tr>
      </thead>
      <tbody>
        {lines.map(([name, predicted, observed]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{predicted ?? "–"}</td>
            <td>{observed ?? "–"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function ratio(part: number, whole: number): string {
  return whole > 0 ? `${part} of ${whole}` : "none are judged";
}

function summary({ threads, promise, length_ns }: Observation) {
  const vcpus = threads.some(({ is_vcpu }) => is_vcpu) ? threads.filter(({ is_vcpu }) => is_vcpu) : threads;
  const sum = (values: number[]) => values.reduce((sum, value) => sum + value, 0);
  const longest = (key: "p99_ns" | "longest_ns") => {
    const values = vcpus.flatMap(({ waits }) => (waits && waits.count > 0 ? waits[key] : []));
    return values.length > 0 ? shortDuration(Math.max(...values)) : undefined;
  };
  return {
    ran: sum(vcpus.map(({ ran_ns }) => ran_ns)) / length_ns,
    judged: sum(promise.map(({ judged }) => judged)),
    missed: sum(promise.map(({ missed }) => missed)),
    p99: longest("p99_ns"),
    longest: longest("longest_ns"),
  };
}

/** The threads that ran while a thread of the VM waited. */
function Instead({ observed }: { observed: Observation }) {
  if (observed.unrecorded) return <p class="note">The waits are not known: {observed.unrecorded}.</p>;
  const all = new Map<number, { name: string; ran_ns: number }>();
  for (const { tid, name, ran_ns } of observed.threads.flatMap(({ instead }) => instead)) {
    const named = tid === 0 ? "nothing: the CPU was idle" : `${name ?? "ended thread"} (${tid})`;
    all.set(tid, { name: named, ran_ns: (all.get(tid)?.ran_ns ?? 0) + ran_ns });
  }
  const longest = [...all.values()].sort((a, b) => b.ran_ns - a.ran_ns).slice(0, 5);
  if (longest.length === 0 || host.value === undefined) return null;
  return (
    <table class="pairs">
      <thead>
        <tr>
          <th scope="col">ran instead, the longest five</th>
          <th scope="col">time</th>
        </tr>
      </thead>
      <tbody>
        {longest.map(({ name, ran_ns }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{shortDuration(ran_ns)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
