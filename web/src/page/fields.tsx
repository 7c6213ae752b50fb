import { ACTIVITIES, applied, shownValue, type Draft, type Field } from "./draft";
import { basis, draft, edit, verdict } from "./editor";
import { PERIOD, SLICE, STEPS, exactDuration, moved, percent, readDuration, toSlider, type Range } from "./quantity";
import { partOf } from "./rows";
import { host } from "./store";

function shown<F extends Field>(field: F) {
  return shownValue(field, draft.value, basis.value.map(({ desired }) => desired));
}

function mistakeOf(field: Field) {
  return verdict.value.is === "wrong" ? verdict.value.mistakes.find((mistake) => mistake.field === field) : undefined;
}

export function PromiseFields() {
  const isPromised = shown("promise");
  return (
    <fieldset>
      <legend>Promise</legend>
      <Presets />
      <Duration field="slice" label="Slice" range={SLICE} />
      <Duration field="period" label="Period" range={PERIOD} />
      <Part />
      <div class="row">
        <Text field="cpus" label="CPUs" />
        <Check field="gang" label="Gang" title="All parts of the slice are delivered at the same time" />
        <label>
          Limit
          <select value={shown("limit") ?? ""} onChange={(event) => edit({ limit: event.currentTarget.value as "soft" })}>
            <Differ field="limit" />
            <option value="soft">soft</option>
            <option value="hard">hard</option>
          </select>
        </label>
        <Mechanisms />
      </div>
      {isPromised !== false && (
        <button type="button" class="quiet" onClick={() => edit({ promise: false })}>
          End the promise
        </button>
      )}
    </fieldset>
  );
}

function Differ({ field }: { field: Field }) {
  return shown(field) === undefined ? <option value="">differ</option> : null;
}

function Mechanisms() {
  const offered = ["auto", ...(host.value?.mechanisms ?? [])];
  return (
    <label>
      Mechanism
      <select
        value={shown("mechanism") ?? ""}
        onChange={(event) => edit({ mechanism: event.currentTarget.value as "auto" })}
      >
        <Differ field="mechanism" />
        {offered.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

function Presets() {
  return (
    <div class="presets" role="group" aria-label="Promises for activities">
      {ACTIVITIES.map(({ name, slice, period }) => (
        <button
          key={name}
          type="button"
          title={`${slice} in ${period}: the longest period that users of this activity accepted (VSched 2005, figure 11)`}
          onClick={() => edit({ promise: true, slice, period })}
        >
          {name}
        </button>
      ))}
    </div>
  );
}

/** A duration as text, and on a logarithmic slider. */
function Duration({ field, label, range }: { field: "slice" | "period"; label: string; range: Range }) {
  const text = shown(field);
  const read = readDuration(text ?? "", field, "2ms");
  const mistake = mistakeOf(field);
  const known = "value" in read ? read.value : undefined;
  const change = (text: string) => edit({ [field]: text, promise: true } as Draft);
  return (
    <div class="duration">
      <label for={field}>{label}</label>
      <input
        id={field}
        type="text"
        autocomplete="off"
        spellcheck={false}
        value={text ?? ""}
        placeholder={text === undefined ? "differ" : field === "slice" ? "such as 2ms" : "such as 10ms"}
        aria-invalid={mistake ? "true" : undefined}
        aria-describedby={mistake ? `${field}-mistake` : undefined}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <input
        type="range"
        min="0"
        max={STEPS}
        aria-label={`${label} on a logarithmic scale`}
        aria-valuetext={known === undefined ? "not set" : exactDuration(known)}
        value={toSlider(known ?? range.least, range)}
        onInput={(event) => change(exactDuration(moved(known ?? range.least, event.currentTarget.valueAsNumber, range)))}
      />
      <Mistake field={field} />
    </div>
  );
}

function Mistake({ field }: { field: Field }) {
  const mistake = mistakeOf(field);
  return mistake ? (
    <p class="mistake" id={`${field}-mistake`}>
      {mistake.error}: {mistake.help}
    </p>
  ) : null;
}

/** The promise as a part of a CPU. */
function Part() {
  const parts = basis.value.map(({ desired }) => {
    const wanted = applied(draft.value, desired);
    return Array.isArray(wanted) || !wanted.promise ? undefined : partOf(wanted.promise);
  });
  const [first] = parts;
  if (first === undefined || parts.some((part) => part !== first)) return null;
  return <p class="part">{percent(first)} of a CPU</p>;
}

function Text({ field, label, unit }: { field: "cpus" | "weight" | "cap"; label: string; unit?: string }) {
  const value = shown(field);
  const mistake = mistakeOf(field);
  return (
    <label>
      {label}
      <input
        type="text"
        inputMode="numeric"
        class="number"
        autocomplete="off"
        value={value ?? ""}
        placeholder={value === undefined ? "differ" : field === "cpus" ? "1" : "none"}
        aria-invalid={mistake ? "true" : undefined}
        aria-describedby={mistake ? `${field}-mistake` : undefined}
        onInput={(event) => edit({ [field]: event.currentTarget.value })}
      />
      {unit}
    </label>
  );
}

function Check({ field, label, title }: { field: "gang" | "paused"; label: string; title: string }) {
  const value = shown(field);
  return (
    <label class="check" title={title}>
      <input
        type="checkbox"
        checked={value === true}
        // The VMs differ.
        indeterminate={value === undefined}
        onChange={(event) => edit({ [field]: event.currentTarget.checked })}
      />
      {label}
    </label>
  );
}

export function ShareFields() {
  return (
    <fieldset>
      <legend>Share</legend>
      <div class="row">
        <Text field="weight" label="Weight" />
        <Text field="cap" label="Cap" unit="%" />
        <Check field="paused" label="Paused" title="Nothing of this is in force until the VM is resumed" />
      </div>
      <Mistake field="cpus" />
      <Mistake field="weight" />
      <Mistake field="cap" />
    </fieldset>
  );
}
