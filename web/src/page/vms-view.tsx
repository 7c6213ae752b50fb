import { useComputed } from "@preact/signals";
import { useRef } from "preact/hooks";
import { EditorPane } from "./editor-pane";
import { trySelect } from "./editor";
import { price } from "./settings";
import { arrangement, isOrderHeld, mayChangeAny, order, query, rows, selected, sorting } from "./store";
import { useRowWindow } from "./row-window";
import type { Column } from "./rows";
import { VmRow } from "./vm-row";

interface Heading {
  column: Column;
  title: string;
  meaning: string;
  /** Whether the values are words. Numbers are at the right. */
  isText?: boolean;
}

export const HEADINGS: Heading[] = [
  { column: "name", title: "VM", meaning: "Name of the VM", isText: true },
  { column: "state", title: "State", meaning: "Whether what is desired is in force", isText: true },
  { column: "asked", title: "Asked", meaning: "The promise that is desired: slice in period", isText: true },
  { column: "granted", title: "Granted", meaning: "The promise that is in force, in percent of a CPU" },
  { column: "delivered", title: "Delivered", meaning: "CPU time delivered of the CPU time due, over 10 s" },
  { column: "missed", title: "Missed", meaning: "Periods with less CPU time than was due, since the promise is in force" },
  { column: "used", title: "Used", meaning: "CPU time used, in percent of a CPU, over 10 s" },
  { column: "waited", title: "Waited", meaning: "Time without a CPU while runnable, in percent of a CPU, over 10 s" },
  {
    column: "latency",
    title: "Latency",
    meaning: "Mean time from a wake-up, or from a preemption, until a vCPU runs, over 10 s",
  },
  { column: "efficiency", title: "Efficiency", meaning: "CPU time used of the CPU time granted, over 10 s" },
  { column: "weight", title: "Weight", meaning: "Weight relative to other control groups" },
  { column: "cap", title: "Cap", meaning: "Maximum CPU time, in percent of a CPU" },
  { column: "cost", title: "Cost/h", meaning: "Price of the granted CPU time, in an hour" },
];

export function VmsView() {
  const isSplit = useComputed(() => selected.value.length > 0);
  return (
    <div class="split" data-open={isSplit.value ? "" : undefined}>
      <section class="list" aria-label="List of VMs">
        <Filter />
        <div class="scroll">
          <table
            class={`vms vm-list ${mayChangeAny.value ? "with-checks" : ""}`}
            role="table"
            aria-label="VMs"
            aria-rowcount={order.value.length + 1}
          >
            <Head />
            <Body />
          </table>
          <Nothing />
        </div>
      </section>
      {isSplit.value && <EditorPane />}
    </div>
  );
}

function Body() {
  const body = useRef<HTMLTableSectionElement>(null);
  const { ids, first, above, below } = useRowWindow(body, order).value;
  return (
    <tbody
      ref={body}
      role="rowgroup"
      onPointerEnter={() => (isOrderHeld.value = true)}
      onPointerLeave={() => (isOrderHeld.value = false)}
    >
      {above > 0 && <Gap key="above" height={above} />}
      {ids.map((id, at) => (
        <VmRow key={id} id={id} number={first + at + 2} />
      ))}
      {below > 0 && <Gap key="below" height={below} />}
    </tbody>
  );
}

/** The place of rows that are not in the document. */
function Gap({ height }: { height: number }) {
  return <tr aria-hidden="true" style={{ height: `${height}px` }} />;
}

function Filter() {
  const shown = useComputed(() => {
    arrangement.value;
    return order.value.length === rows.size ? `${rows.size} VMs` : `${order.value.length} of ${rows.size} VMs`;
  });
  return (
    <div class="bar" role="search">
      <input
        id="search"
        type="search"
        placeholder="Search: name, id, pid, state:kept, kind:qemu"
        aria-label="Search VMs"
        value={query.value}
        onInput={(event) => (query.value = event.currentTarget.value)}
      />
      <span role="status">{shown}</span>
      <label class="price">
        Price per CPU hour
        <input
          type="number"
          min="0"
          step="0.001"
          value={price.value}
          onInput={(event) => (price.value = Math.max(0, event.currentTarget.valueAsNumber || 0))}
        />
      </label>
    </div>
  );
}

function Head() {
  return (
    <thead role="rowgroup">
      <tr role="row" aria-rowindex={1}>
        {mayChangeAny.value && (
          <th class="check" scope="col" role="columnheader">
            <SelectAll />
          </th>
        )}
        {HEADINGS.map((heading) => (
          <HeadCell key={heading.column} {...heading} />
        ))}
      </tr>
    </thead>
  );
}

function SelectAll() {
  const shown = order.value;
  const isAll = shown.length > 0 && shown.every((id) => selected.value.includes(id));
  const toggle = (event: Event) => {
    if (!trySelect(isAll ? [] : [...shown])) (event.currentTarget as HTMLInputElement).checked = isAll;
  };
  return <input type="checkbox" aria-label="Select all shown VMs" checked={isAll} onChange={toggle} />;
}

function HeadCell({ column, title, meaning, isText }: Heading) {
  const { column: by, isDescending } = sorting.value;
  const isBy = by === column;
  const sort = () => {
    // The highest number is usually what is looked for.
    sorting.value = { column, isDescending: isBy ? !isDescending : !isText };
  };
  return (
    <th
      scope="col"
      role="columnheader"
      class={`${column} ${isText ? "" : "number"}`}
      aria-sort={isBy ? (isDescending ? "descending" : "ascending") : undefined}
    >
      <button type="button" class="sort" title={meaning} onClick={sort}>
        {title}
      </button>
    </th>
  );
}

function Nothing() {
  arrangement.value;
  if (order.value.length > 0) return null;
  return (
    <p class="nothing">
      {rows.size > 0
        ? "No VM matches the search."
        : "No VMs run here. `tactus set pid:NUMBER` makes a promise to any process."}
    </p>
  );
}
