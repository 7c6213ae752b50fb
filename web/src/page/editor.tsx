// The editor of a VM: typed values and sliders, the verdict of the service, and the preview.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Problem, Vm } from "./api";
import { Draft, type Fields, isDesired, PERIOD, PRESETS, SLICE } from "./draft";
import { steer } from "./gamepad";
import { demandOf, type Prediction } from "./preview";
import { edited, latest, mayChange, samples, vms } from "./store";
import { asked } from "./table";
import { fromSlider, parseTime, percent, roughTime, STEPS, time, toSlider } from "./units";

type TimeField = "slice" | "period";

function TimeInput({ draft, name, range }: { draft: Draft; name: TimeField; range: readonly [number, number] }) {
  const text = draft.fields.value[name];
  const wanted = draft.wanted.value;
  const error = isDesired(wanted) ? undefined : wanted[name];
  const ns = parseTime(text);
  const at = typeof ns === "number" ? toSlider(Math.min(range[1], Math.max(range[0], ns)), range[0], range[1]) : 0;
  const slide = (event: Event) => {
    const position = Number((event.currentTarget as HTMLInputElement).value);
    draft.edit({ isPromised: true, [name]: time(fromSlider(position, range[0], range[1])) });
  };
  return (
    <div class="field">
      <label for={`${name}-text`}>{name}</label>
      <input
        id={`${name}-text`}
        type="text"
        value={text}
        aria-invalid={error !== undefined}
        aria-describedby={`${name}-error`}
        onInput={(event) => draft.edit({ isPromised: true, [name]: event.currentTarget.value })}
      />
      <input
        type="range"
        min={0}
        max={STEPS}
        value={at}
        aria-label={`${name}, from ${time(range[0])} to ${time(range[1])}`}
        aria-valuetext={text}
        onInput={slide}
      />
      <span id={`${name}-error`} class="error">
        {error}
      </span>
    </div>
  );
}

type TextField = "cpus" | "weight" | "cap";

function TextInput({ draft, name, label, hint }: { draft: Draft; name: TextField; label: string; hint: string }) {
  const wanted = draft.wanted.value;
  const error = isDesired(wanted) ? undefined : wanted[name];
  return (
    <div class="field">
      <label for={`${name}-text`}>{label}</label>
      <input
        id={`${name}-text`}
        type="text"
        inputMode="numeric"
        placeholder={hint}
        value={draft.fields.value[name]}
        aria-invalid={error !== undefined}
        aria-describedby={`${name}-error`}
        onInput={(event) => draft.edit({ [name]: event.currentTarget.value })}
      />
      <span id={`${name}-error`} class="error">
        {error}
      </span>
    </div>
  );
}

function Check({ draft, name, label }: { draft: Draft; name: "isPromised" | "gang" | "hard"; label: string }) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={draft.fields.value[name]}
        onChange={(event) => draft.edit({ [name]: event.currentTarget.checked } as Partial<Fields>)}
      />
      {label}
    </label>
  );
}

function Refusal({ draft, problem }: { draft: Draft; problem: Problem }) {
  const { slice_ns, period_ns, end_of } = problem.alternatives ?? { end_of: [] };
  return (
    <div class="refusal" role="alert">
      <p>
        <strong>Refused:</strong> {problem.detail}
      </p>
      {problem.remedy && <p>{problem.remedy}</p>}
      <p class="take">
        {slice_ns !== undefined && (
          <button type="button" onClick={() => draft.edit({ slice: time(slice_ns) })}>
            Take a slice of {time(slice_ns)}
          </button>
        )}
        {period_ns !== undefined && (
          <button type="button" onClick={() => draft.edit({ period: time(period_ns) })}>
            Take a period of {time(period_ns)}
          </button>
        )}
        {end_of.length > 0 && <span>The end of the promise to {end_of.join(" or ")} makes room, too.</span>}
      </p>
    </div>
  );
}

function Verdict({ draft }: { draft: Draft }) {
  const [verdict, outcome] = [draft.verdict.value, draft.outcome.value];
  return (
    <div aria-live="polite">
      {verdict.kind === "fits" && draft.isChanged.value && <p class="fits">The service would accept this change.</p>}
      {verdict.kind === "refused" && <Refusal draft={draft} problem={verdict.problem} />}
      {outcome && <p class={outcome.isDone ? "fits" : "refusal"}>{outcome.text}</p>}
    </div>
  );
}

// The prediction of the preview beside what is observed.
function Compared({ vm, prediction }: { vm: Vm; prediction: Prediction | undefined }) {
  const sample = (void samples.value, latest(vm.id));
  const predicted = prediction?.kind === "predicted" ? prediction : undefined;
  const missed = (judged: number, lost: number) => (judged > 0 ? percent(lost / judged) : "–");
  const harmed = predicted?.others.filter((other) => other.missed > 0).map((other) => vms.value.get(other.id)?.name ?? other.id);
  return (
    <section aria-label="preview">
      <table class="compared">
        <thead>
          <tr>
            <th scope="col" />
            <th scope="col">predicted</th>
            <th scope="col">observed, last second</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">missed periods</th>
            <td>{predicted ? missed(predicted.of.judged, predicted.of.missed) : "–"}</td>
            <td>{sample ? missed(sample.judged, sample.missed) : "–"}</td>
          </tr>
          <tr>
            <th scope="row">CPU time</th>
            <td>{predicted ? percent(predicted.of.delivered_ppm / 1e6) : "–"}</td>
            <td>{sample ? percent(sample.used) : "–"}</td>
          </tr>
          <tr>
            <th scope="row">wait for a CPU, 99th percentile</th>
            <td>{predicted ? roughTime(predicted.of.wait_p99_ns) : "–"}</td>
            <td>–</td>
          </tr>
        </tbody>
      </table>
      <p class="note">{note(prediction)}</p>
      {harmed && harmed.length > 0 && <p class="note bad">Predicted to miss periods, too: {harmed.join(", ")}.</p>}
    </section>
  );
}

function note(prediction: Prediction | undefined): string {
  if (!prediction) return "The preview follows the first second of observation.";
  if (prediction.kind === "unavailable") return `Preview is not available: ${prediction.reason}`;
  const length = `Simulated: ${roughTime(prediction.horizon_ns)}${prediction.isCut ? ", cut at two million events" : ""}.`;
  return prediction.of.is_assumed ? `${length} Threads whose demand is not known count as always runnable.` : length;
}

function Form({ draft, others }: { draft: Draft; others: Vm[] }) {
  const first = useRef<HTMLFormElement>(null);
  const results = useSignal<string[]>([]);
  useEffect(() => first.current?.querySelector<HTMLInputElement>("#slice-text")?.focus(), [draft]);
  useEffect(() => steer(draft), [draft]);
  const fields = draft.fields.value;
  const close = () => (edited.value = undefined);
  const apply = async (event: Event) => {
    event.preventDefault();
    await draft.apply();
    results.value = await Promise.all(others.map((vm) => applyTo(vm, draft.fields.peek())));
  };
  const key = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    if (draft.isChanged.peek()) draft.revert();
    else close();
  };
  const canApply = isDesired(draft.wanted.value) && (draft.isChanged.value || others.length > 0);
  return (
    <form ref={first} class="editor" onSubmit={(event) => void apply(event)} onKeyDown={key} aria-label={`change ${draft.vm.name}`}>
      <h2>
        {draft.vm.name}
        {others.length > 0 && ` and ${others.length} more`}
      </h2>
      <p class="note">
        Now: {asked(draft.base.value)}. Enter applies, Esc reverts.
      </p>
      <fieldset>
        <legend>
          <Check draft={draft} name="isPromised" label="Promise CPU time" />
        </legend>
        <TimeInput draft={draft} name="slice" range={SLICE} />
        <TimeInput draft={draft} name="period" range={PERIOD} />
        <div class="presets" role="group" aria-label="presets">
          {PRESETS.map(({ name, slice_ns, period_ns }) => (
            <button
              type="button"
              onClick={() => draft.edit({ isPromised: true, slice: time(slice_ns), period: time(period_ns) })}
              title={`${time(slice_ns)} every ${time(period_ns)} (VSched 2005, figure 11)`}
            >
              {name}
            </button>
          ))}
        </div>
        <TextInput draft={draft} name="cpus" label="CPUs" hint="1" />
        <Check draft={draft} name="gang" label="at the same time on all CPUs (gang)" />
        <Check draft={draft} name="hard" label="no more than the slice (hard)" />
      </fieldset>
      <fieldset>
        <legend>Share</legend>
        <TextInput draft={draft} name="weight" label="weight" hint="unchanged; 100 is usual" />
        <TextInput draft={draft} name="cap" label="at most, % of a CPU" hint="no maximum" />
      </fieldset>
      <Verdict draft={draft} />
      <Compared vm={draft.base.value} prediction={fields.isPromised ? draft.prediction.value : undefined} />
      {results.value.map((text) => (
        <p class="note">{text}</p>
      ))}
      <p class="buttons">
        <button type="submit" class="apply" disabled={!canApply}>
          Apply
        </button>
        <button type="button" onClick={() => draft.revert()} disabled={!draft.isChanged.value}>
          Revert
        </button>
        <button type="button" onClick={close}>
          Close
        </button>
        <label class="check" title="Each value that the service accepts is applied at once, at most ten times a second.">
          <input
            type="checkbox"
            role="switch"
            checked={draft.isLive.value}
            onChange={(event) => (draft.isLive.value = event.currentTarget.checked)}
          />
          Live
        </label>
      </p>
    </form>
  );
}

// Applies the values of a form to another VM. Returns the result as text.
async function applyTo(vm: Vm, fields: Fields): Promise<string> {
  const draft = new Draft(vm);
  draft.edit(fields);
  await draft.apply();
  const outcome = draft.outcome.peek();
  draft.end();
  return `${vm.name}: ${outcome?.text ?? "unchanged"}`;
}

function Details({ vm }: { vm: Vm }) {
  return (
    <section class="editor" aria-label={vm.name}>
      <h2>{vm.name}</h2>
      <p>
        {asked(vm)}: {vm.state.phase}
      </p>
      {vm.state.reason && <p>{vm.state.reason}</p>}
      {vm.state.remedy && <p>{vm.state.remedy}</p>}
    </section>
  );
}

export function Editor({ id, bulk }: { id: string; bulk: string[] }) {
  const vm = vms.value.get(id);
  const exists = vm !== undefined;
  const draft = useMemo(() => (vm ? new Draft(vm) : undefined), [id, exists]);
  useEffect(
    () => () => {
      draft?.end();
      void demandOf(undefined);
    },
    [draft],
  );
  if (!vm || !draft) return null;
  const others = bulk.filter((other) => other !== id).flatMap((other) => vms.value.get(other) ?? []);
  return mayChange.value ? <Form draft={draft} others={others} /> : <Details vm={vm} />;
}
