import type { Problem } from "./api";
import { draft, isApplying, outcome, take, undoApplied, verdict, vms, type Answer } from "./editor";
import { exactDuration } from "./quantity";

/** The answer of admission control to the draft, or to the last change. */
export function VerdictText() {
  return (
    <div class="verdict" aria-live="polite">
      <Outcome />
      <Answers />
    </div>
  );
}

function Outcome() {
  const made = outcome.value.filter(({ problem }) => !problem);
  if (made.length === 0) return null;
  const applied = made.filter(({ hasEnded }) => !hasEnded);
  const ended = made.filter(({ hasEnded }) => hasEnded).map(({ name }) => name);
  const names = applied.map(({ name, mechanism }) => (mechanism ? `${name}, by ${mechanism}` : name));
  const isUndone = made.some(({ isUndone }) => isUndone);
  return (
    <p class="good">
      {names.length > 0 && `${isUndone ? "Undone for" : "Applied to"} ${names.join("; ")}. `}
      {ended.length > 0 && `The promise to ${ended.join(" and ")} has ended. `}
      {made.every(({ before }) => before) && (
        <button type="button" disabled={isApplying.value} onClick={() => void undoApplied()}>
          {isUndone ? "Redo" : "Undo"}
        </button>
      )}
    </p>
  );
}

function Answers() {
  const now = verdict.value;
  if (now.is === "nothing" || now.is === "wrong") return null;
  if (now.is === "asking") return <p class="note">Asking the service.</p>;
  const refused = now.answers.filter(({ problem }) => problem);
  const isDone = outcome.value.length > 0;
  return (
    <div data-outdated={now.isOutdated ? "" : undefined}>
      {refused.length === 0 && !isDone && <Fits answers={now.answers} />}
      {refused.map((answer) => (
        <Refused key={answer.id} answer={answer} isDone={isDone} />
      ))}
    </div>
  );
}

function Fits({ answers }: { answers: Answer[] }) {
  const mechanisms = [...new Set(answers.flatMap(({ mechanism }) => mechanism ?? []))];
  const by = mechanisms.length > 0 ? `, by ${mechanisms.join(" and ")}` : "";
  if (answers.length > 1) {
    return (
      <p class="note">
        Each of the {answers.length} changes fits on its own{by}; together they may not. Enter applies them one by one.
      </p>
    );
  }
  const ends = draft.value.promise === false && vms.value[0]?.desired.promise;
  if (ends) return <p class="note">The promise would end. Enter applies it.</p>;
  return <p class="good">The draft would be in force{by}. Enter applies it.</p>;
}

function Refused({ answer, isDone }: { answer: Answer; isDone: boolean }) {
  const { problem, name } = answer;
  if (!problem) return null;
  const isConflict = problem.status === 412;
  return (
    <div class="problem" role={isDone ? "alert" : undefined}>
      <p>
        <b>{isDone ? `${name} was not changed: ` : `${name} would be refused: `}</b>
        {isConflict ? "another client has changed it" : problem.detail}
      </p>
      {problem.remedy && !isConflict && <p>help: {problem.remedy}</p>}
      {vms.value.length === 1 && <Alternatives problem={problem} />}
    </div>
  );
}

/** The nearest promises that fit, each with a button that takes it. */
function Alternatives({ problem: { alternatives } }: { problem: Problem }) {
  if (!alternatives) return null;
  const { slice_ns, period_ns, end_of } = alternatives;
  const isDisabled = isApplying.value;
  return (
    <div class="alternatives" role="group" aria-label="Promises that fit">
      {slice_ns !== undefined && (
        <button type="button" disabled={isDisabled} onClick={() => void take({ slice: exactDuration(slice_ns) })}>
          Apply with slice {exactDuration(slice_ns)}
        </button>
      )}
      {period_ns !== undefined && (
        <button type="button" disabled={isDisabled} onClick={() => void take({ period: exactDuration(period_ns) })}>
          Apply with period {exactDuration(period_ns)}
        </button>
      )}
      {end_of.map((name) => (
        <button key={name} type="button" disabled={isDisabled} onClick={() => void take({ endOf: name })}>
          End the promise to {name} and apply
        </button>
      ))}
    </div>
  );
}
