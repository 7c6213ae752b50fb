// The page of the playground.

import { useState } from "preact/hooks";
import type { Complaint } from "../simulator/request";
import { download } from "./download";
import { Editor, goTo, isAboutScenario } from "./editor";
import { first, toHash } from "./link";
import { Policies } from "./policies";
import { ResultsTable } from "./results";
import * as scenarios from "./scenarios";
import { cancel, change, complaints, failure, inputs, progress, results, run } from "./session";
import { time } from "./time";
import { Timelines } from "./timelines";

function Settings() {
  const { scenario, seed, length } = inputs.value;
  const choose = (name: string) => {
    const { text } = first(name);
    change({ scenario: name, text, seed: "", length: "", range: null });
  };
  return (
    <div class="settings">
      <label class="wide">
        Example
        <select value={scenario} onChange={(event) => choose(event.currentTarget.value)}>
          {scenarios.names.map((name) => (
            <option value={name}>
              {scenarios.title(name) === name ? name : `${name}: ${scenarios.title(name)}`}
            </option>
          ))}
        </select>
      </label>
      <label>
        Seed
        <input
          type="text"
          inputMode="numeric"
          value={seed}
          placeholder="of the scenario"
          onInput={(event) => change({ seed: event.currentTarget.value })}
        />
      </label>
      <label>
        Length
        <input
          type="text"
          value={length}
          placeholder="of the scenario"
          onInput={(event) => change({ length: event.currentTarget.value, range: null })}
        />
      </label>
      <Share />
    </div>
  );
}

function Share() {
  const [note, setNote] = useState("");
  const share = async () => {
    const hash = await toHash(inputs.value);
    history.replaceState(null, "", hash);
    const copied = await navigator.clipboard?.writeText(location.href).then(
      () => true,
      () => false,
    );
    setNote(copied ? "The link is in the clipboard." : "The link is in the address bar.");
    setTimeout(() => setNote(""), 4000);
  };
  return (
    <div class="share">
      <button type="button" onClick={() => void share()}>
        Copy link
      </button>
      <button
        type="button"
        disabled={!results.value}
        onClick={() => download(`${inputs.value.scenario}.json`, "application/json", results.value?.simulated.json ?? "")}
      >
        Report (JSON)
      </button>
      <span role="status" class="note">
        {note}
      </span>
    </div>
  );
}

function Progress() {
  const fraction = progress.value;
  const done = results.value;
  const count = done?.runs.length ?? 0;
  return (
    <div class="progress">
      {fraction === null ? (
        <button type="button" onClick={() => void run()}>
          Run
        </button>
      ) : (
        <button type="button" onClick={cancel}>
          Cancel
        </button>
      )}
      {fraction !== null && <progress aria-label="Progress of the run" max={1} value={fraction} />}
      {fraction === null && done && (
        <span class="note">
          {count} run{count === 1 ? "" : "s"} of {time(done.simulated.length_ns)} took {time(done.took_ms * 1e6, 2)}. A
          run follows every change.
        </span>
      )}
    </div>
  );
}

function Error({ complaint }: { complaint: Complaint }) {
  const { reason, remedy, place } = complaint;
  const line = isAboutScenario(complaint) ? place.split(":").at(-2) : undefined;
  return (
    <li>
      {line !== undefined ? (
        <button type="button" class="plain" onClick={() => goTo(complaint)}>
          line {line}
        </button>
      ) : (
        place && <span>{place}</span>
      )}{" "}
      <span class="reason">{reason}</span>
      {remedy && (
        <span class="remedy">
          <b>help:</b> {remedy}
        </span>
      )}
    </li>
  );
}

function Errors() {
  const failed = failure.value;
  const count = complaints.value.length;
  return (
    <div class="errors" aria-live="polite">
      {count > 0 && (
        <ul aria-label="Errors">
          {complaints.value.map((complaint) => (
            <Error complaint={complaint} />
          ))}
        </ul>
      )}
      {failed && (
        <div class="failure">
          <p>
            <strong>Internal error:</strong> {failed.message}. The simulator was restarted.
          </p>
          <button type="button" onClick={() => download("request.json", "application/json", failed.request)}>
            Request (JSON), which repeats the error
          </button>
        </div>
      )}
    </div>
  );
}

export function Playground() {
  return (
    <>
      <Settings />
      <div class="inputs">
        <section aria-labelledby="playground-scenario">
          <h2 id="playground-scenario">Scenario</h2>
          <Editor />
          <p class="note">
            <a href="docs/scenarios.html">All keys of a scenario</a>
          </p>
        </section>
        <Policies />
      </div>
      <Progress />
      <Errors />
      <Timelines />
      <ResultsTable />
    </>
  );
}
