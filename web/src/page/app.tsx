// The page: head, views and editor.

import { useEffect } from "preact/hooks";
import { ChangeLog } from "./changes";
import { CpuView } from "./cpus";
import { Editor } from "./editor";
import { HistoryView } from "./history";
import { phase, price, search, type View, view } from "./place";
import { caller, edited, heard, host, marked, mayChange, oldFor, promised, vms } from "./store";
import { Table } from "./table";
import { TimelineView } from "./timeline";
import { percent } from "./units";

const VIEWS: [View, string][] = [
  ["vms", "VMs"],
  ["cpus", "CPUs"],
  ["history", "History"],
  ["timeline", "Timeline"],
  ["changes", "Changes"],
];
const PHASES = ["kept", "not-kept", "refused", "paused", "waiting", "absent", "none"];

function Head() {
  const about = host.value;
  const sum = [...vms.value.values()].reduce((sum, vm) => sum + promised(vm.desired), 0);
  const most = about ? (about.cpus * (about.promisable_percent ?? 0)) / 100 : 0;
  return (
    <header>
      <h1>Tactus</h1>
      <nav aria-label="views">
        {VIEWS.map(([name, title]) => (
          <button type="button" aria-current={view.value === name ? "page" : undefined} onClick={() => (view.value = name)}>
            {title}
          </button>
        ))}
      </nav>
      {about && (
        <p class="note">
          {about.cpus} CPUs; promised {percent(sum)} of {percent(most)}
          {caller.value && `; you are ${caller.value.name}, ${caller.value.role}`}
        </p>
      )}
    </header>
  );
}

function Banners() {
  const about = host.value;
  return (
    <div aria-live="assertive">
      {oldFor.value !== undefined && (
        <p class="banner" role="alert">
          {heard.value === undefined
            ? "The service does not answer."
            : `The service does not answer: the values are ${oldFor.value} s old.`}
        </p>
      )}
      {about && about.core === undefined && <p class="banner">No promise is kept at present: {about.reason ?? "there is no core"}.</p>}
      {about?.warnings.map((warning) => (
        <p class="warning">{warning}</p>
      ))}
    </div>
  );
}

function Filters() {
  return (
    <div class="filters" role="search">
      <input
        type="search"
        placeholder="Search ( / )"
        aria-label="search VMs by name"
        value={search.value}
        onInput={(event) => (search.value = event.currentTarget.value)}
      />
      <label>
        State{" "}
        <select value={phase.value} onChange={(event) => (phase.value = event.currentTarget.value)}>
          <option value="">all</option>
          {PHASES.map((one) => (
            <option value={one}>{one}</option>
          ))}
        </select>
      </label>
      <label>
        Price of a CPU hour{" "}
        <input
          type="number"
          min="0"
          step="0.001"
          value={price.value || ""}
          placeholder="none"
          onInput={(event) => (price.value = Math.max(0, Number(event.currentTarget.value) || 0))}
        />
      </label>
      {mayChange.value && marked.value.size > 1 && (
        <button type="button" onClick={() => (edited.value = [...marked.value][0])}>
          Change {marked.value.size} VMs
        </button>
      )}
    </div>
  );
}

function Content() {
  switch (view.value) {
    case "cpus":
      return <CpuView />;
    case "history":
      return <HistoryView />;
    case "timeline":
      return <TimelineView />;
    case "changes":
      return <ChangeLog />;
    default:
      return (
        <>
          <Filters />
          <div class="scroll">
            <Table />
          </div>
        </>
      );
  }
}

// Keys of the whole page: / searches, 1 to 5 choose a view.
function key(event: KeyboardEvent): void {
  const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (isTyping || event.ctrlKey || event.altKey || event.metaKey) return;
  const chosen = VIEWS[Number(event.key) - 1];
  if (chosen) view.value = chosen[0];
  if (event.key === "/") {
    view.value = "vms";
    event.preventDefault();
    requestAnimationFrame(() => document.querySelector<HTMLInputElement>("input[type=search]")?.focus());
  }
}

export function App() {
  useEffect(() => {
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  }, []);
  const id = edited.value;
  const bulk = id !== undefined && marked.value.has(id) ? [...marked.value] : [];
  return (
    <>
      <Head />
      <Banners />
      <main class={id === undefined ? "" : "beside"}>
        <div class="content">
          <Content />
        </div>
        {id !== undefined && <Editor key={id} id={id} bulk={bulk} />}
      </main>
    </>
  );
}
