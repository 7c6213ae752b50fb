import { signal } from "@preact/signals";
import type { Event, Problem } from "./api";
import { description, eventMatches, undo, type Undo } from "./change-log";
import { problemOf, put } from "./client";
import { desiredText } from "./rows";
import { caller, events, mayChange, mayChangeAny, query, rows } from "./store";

/** Number of events at first, and how many each further step adds. */
const STEP = 200;
const shownMost = signal(STEP);
const withStates = signal(false);
const failure = signal<{ number: number; problem: Problem } | undefined>(undefined);
const running = signal<number | undefined>(undefined);

/** The changes of the host, the latest first, each with its undo. */
export function ChangesView() {
  const all = events.value;
  const names = namesOf(all);
  const nameOf = ({ vm }: Event) => (vm === undefined ? "host" : rows.get(vm)?.vm.peek().name ?? names.get(vm) ?? vm);
  const chosen = all.filter(
    (event) => (withStates.value || event.event !== "state") && eventMatches(event, nameOf(event), query.value),
  );
  const shown = chosen.slice(-shownMost.value).reverse();
  return (
    <section class="changes" aria-label="Changes">
      <div class="bar" role="search">
        <input
          id="search"
          type="search"
          placeholder="Search: VM, client, change"
          aria-label="Search changes"
          value={query.value}
          onInput={(event) => (query.value = event.currentTarget.value)}
        />
        <label>
          <input
            type="checkbox"
            checked={withStates.value}
            onChange={(event) => (withStates.value = event.currentTarget.checked)}
          />
          with states
        </label>
        <span role="status">{chosen.length} events</span>
      </div>
      <table class="vms">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">VM</th>
            <th scope="col">Event</th>
            <th scope="col">By</th>
            <th scope="col">Change</th>
            {mayChangeAny.value && <th scope="col">Undo</th>}
          </tr>
        </thead>
        <tbody>
          {shown.map((event) => (
            <Line key={event.number} event={event} name={nameOf(event)} way={undo(event, all)} />
          ))}
        </tbody>
      </table>
      {shown.length === 0 && <p class="nothing">No event matches.</p>}
      {chosen.length > shown.length && (
        <button type="button" onClick={() => (shownMost.value += STEP)}>
          Show older events
        </button>
      )}
    </section>
  );
}

/** Returns the names of VMs that have ended. */
function namesOf(all: readonly Event[]): Map<string, string> {
  const appeared = all.flatMap((event) => (event.event === "appeared" && event.vm ? [[event.vm, event.name] as const] : []));
  return new Map(appeared);
}

function Line({ event, name, way }: { event: Event; name: string; way: Undo | undefined }) {
  const time = new Date(event.at_ms);
  const failed = failure.value?.number === event.number ? failure.value.problem : undefined;
  return (
    <tr>
      <td title={time.toISOString()}>
        <time dateTime={time.toISOString()}>{time.toLocaleTimeString("en-GB")}</time>
      </td>
      <th scope="row" class="name">
        {name}
      </th>
      <td>{event.event}</td>
      <td>{event.event === "changed" ? event.by : ""}</td>
      <td class="change">
        {description(event)}
        {failed && (
          <span class="problem" role="alert">
            {failed.detail}
            {failed.remedy ? `; help: ${failed.remedy}` : ""}
          </span>
        )}
      </td>
      {mayChangeAny.value && <td>{way && <UndoButton event={event} way={way} name={name} />}</td>}
    </tr>
  );
}

function UndoButton({ event, way, name }: { event: Event; way: Undo; name: string }) {
  const vm = rows.get(way.id)?.vm.value;
  if (!vm || !mayChange(caller.value, vm)) return null;
  const word = desiredText(way.desired);
  // It would change nothing.
  if (word === desiredText(vm.desired)) return null;
  const run = async () => {
    running.value = event.number;
    failure.value = undefined;
    try {
      const reason = `undo of event ${event.number}`;
      await put({ id: way.id, generation: vm.generation, desired: way.desired, reason });
    } catch (error) {
      failure.value = { number: event.number, problem: problemOf(error) };
    }
    running.value = undefined;
  };
  const meaning = way.isLast ? "Undo this change" : "Undo this change and the later ones of the VM";
  return (
    <button
      type="button"
      title={meaning}
      aria-label={`Back to ${word}: undo the change of ${name}`}
      disabled={running.value !== undefined}
      onClick={() => void run()}
    >
      Back to {word}
    </button>
  );
}
