// The policies of the runs and their knobs.

import type { Knob, Policy } from "../simulator/request";
import { change, inputs, policies } from "./session";
import { time } from "./time";

/** Returns the value of a knob as the command line writes it. */
function shown({ unit, words }: Knob, value: number): string {
  switch (unit) {
    case "ns":
      return time(value, 12);
    case "percent":
      return `${value}%`;
    case "switch":
      return value === 0 ? "off" : "on";
    case "choice":
      return words?.[value] ?? "?";
    case "count":
      return String(value);
  }
}

function KnobRow({ policy, knob }: { policy: string; knob: Knob }) {
  const key = `${policy}.${knob.name}`;
  const value = inputs.value.knobs[key] ?? "";
  const choices = knob.unit === "switch" ? ["off", "on"] : knob.words;
  const standard = shown(knob, knob.default);
  const set = (text: string) => change({ knobs: { ...inputs.value.knobs, [key]: text } });
  return (
    <label class="knob">
      <span class="knob-name">{knob.name}</span>
      {choices ? (
        <select value={value} onChange={(event) => set(event.currentTarget.value)}>
          <option value="">{standard} (default)</option>
          {choices.filter((word) => word !== standard).map((word) => <option value={word}>{word}</option>)}
        </select>
      ) : (
        <input
          type="text"
          value={value}
          placeholder={standard}
          spellcheck={false}
          onInput={(event) => set(event.currentTarget.value.trim())}
        />
      )}
      <span class="knob-help">{knob.help}</span>
    </label>
  );
}

function Chosen({ name, policy }: { name: string; policy: Policy | undefined }) {
  const remove = () => change({ policies: inputs.value.policies.filter((other) => other !== name) });
  const knobs = policy?.knobs ?? [];
  const changed = knobs.filter((knob) => inputs.value.knobs[`${name}.${knob.name}`]).length;
  return (
    <li class="policy">
      <div class="policy-head">
        <strong>{name}</strong>
        <a href={`docs/policies/${name}.html`}>
          essay<span class="unseen"> about {name}</span>
        </a>
        <button type="button" class="plain" aria-label={`Remove ${name}`} onClick={remove}>
          ✕
        </button>
      </div>
      {policy && <p class="policy-title">{policy.title}</p>}
      {knobs.length > 0 && (
        <details>
          <summary>
            Knobs{changed > 0 ? ` (${changed} changed)` : ""}
            <span class="unseen"> of {name}</span>
          </summary>
          {knobs.map((knob) => (
            <KnobRow policy={name} knob={knob} />
          ))}
        </details>
      )}
    </li>
  );
}

export function Policies() {
  const chosen = inputs.value.policies;
  const all = policies.value;
  const add = (select: HTMLSelectElement) => {
    change({ policies: [...chosen, select.value] });
    select.value = "";
  };
  return (
    <section class="policies" aria-labelledby="playground-policies">
      <h2 id="playground-policies">Policies</h2>
      {chosen.length === 0 && <p class="note">The policy of the scenario.</p>}
      <ul>
        {chosen.map((name) => (
          <Chosen key={name} name={name} policy={all.find((policy) => policy.name === name)} />
        ))}
      </ul>
      <label>
        <span class="unseen">Add a policy</span>
        <select value="" onChange={(event) => add(event.currentTarget)}>
          <option value="" disabled>
            Add a policy…
          </option>
          {all
            .filter(({ name }) => !chosen.includes(name))
            .map(({ name, title }) => (
              <option value={name}>
                {name}: {title}
              </option>
            ))}
        </select>
      </label>
    </section>
  );
}
