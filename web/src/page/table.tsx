// The table of all VMs: what is asked, granted, delivered and missed.

import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import type { Vm } from "./api";
import { isDescending, phase, price, search, type SortKey, sortBy } from "./place";
import { Sparkline } from "./sparkline";
import { edited, latest, marked, mayChange, promised, samples, vms } from "./store";
import { percent, time } from "./units";

// Returns what a VM asks for as text: 2ms every 10ms on 2 CPUs, weight 200, at most 50 %.
export function asked(vm: Vm): string {
  const { promise, weight, cap_percent } = vm.desired;
  const parts: string[] = [];
  if (promise) {
    const cpus = promise.cpus > 1 ? ` on ${promise.cpus} CPUs${promise.gang ? " together" : ""}` : "";
    parts.push(`${time(promise.slice_ns)} every ${time(promise.period_ns)}${cpus}${promise.limit === "hard" ? ", hard" : ""}`);
  }
  if (weight !== undefined) parts.push(`weight ${weight}`);
  if (cap_percent !== undefined) parts.push(`at most ${cap_percent} %`);
  return parts.join(", ") || "–";
}

const isInForce = (vm: Vm) => vm.state.phase === "kept" || vm.state.phase === "not-kept";
const granted = (vm: Vm) => (isInForce(vm) ? promised(vm.desired) : 0);

// Returns the delivered part of what was due in the last second; `undefined`: nothing was due.
function delivered(vm: Vm): number | undefined {
  const sample = latest(vm.id);
  return sample && sample.due_ns > 0 ? sample.delivered_ns / sample.due_ns : undefined;
}

// Returns the used part of what is granted: the efficiency of the promise.
function efficiency(vm: Vm): number | undefined {
  const share = granted(vm);
  return share > 0 ? (latest(vm.id)?.used ?? 0) / share : undefined;
}

const VALUES: Record<SortKey, (vm: Vm) => number | string> = {
  name: (vm) => vm.name.toLowerCase(),
  asked: (vm) => promised(vm.desired),
  granted,
  delivered: (vm) => delivered(vm) ?? -1,
  missed: (vm) => vm.measured.missed / Math.max(1, vm.measured.judged),
  used: (vm) => latest(vm.id)?.used ?? 0,
  waited: (vm) => latest(vm.id)?.waited ?? 0,
  state: (vm) => vm.state.phase,
};

const COLUMNS: { key: SortKey; title: string; isNumber: boolean; about: string }[] = [
  { key: "name", title: "VM", isNumber: false, about: "name of the VM, or of the process" },
  { key: "state", title: "state", isNumber: false, about: "whether what is asked is in force" },
  { key: "asked", title: "asked", isNumber: false, about: "slice and period, weight and cap" },
  { key: "granted", title: "granted", isNumber: true, about: "the promise in force, as a share of a CPU" },
  { key: "delivered", title: "delivered", isNumber: true, about: "delivered part of what was due in the last second" },
  { key: "missed", title: "missed", isNumber: true, about: "missed periods of those in which the VM was runnable throughout" },
  { key: "used", title: "used", isNumber: true, about: "CPU time in the last second, as a share of a CPU" },
  { key: "waited", title: "waited", isNumber: true, about: "time in the last second in which a thread was runnable without a CPU" },
];

// Returns the VMs that the search and the filter leave, in order.
function shown(all: ReadonlyMap<string, Vm>): Vm[] {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const isShown = (vm: Vm) =>
    (phase.value === "" || vm.state.phase === phase.value) &&
    words.every((word) => `${vm.name} ${vm.id} ${vm.kind}`.toLowerCase().includes(word));
  const value = VALUES[sortBy.value];
  const sign = isDescending.value ? -1 : 1;
  const order = (one: Vm, other: Vm) => {
    const [a, b] = [value(one), value(other)];
    return a < b ? -sign : a > b ? sign : one.name < other.name ? -1 : 1;
  };
  return [...all.values()].filter(isShown).sort(order);
}

function sort(key: SortKey): void {
  isDescending.value = sortBy.value === key ? !isDescending.value : key !== "name" && key !== "state";
  sortBy.value = key;
}

function Heads() {
  return (
    <tr>
      {mayChange.value && (
        <th scope="col">
          <MarkAll />
        </th>
      )}
      {COLUMNS.map(({ key, title, isNumber, about }) => (
        <th
          scope="col"
          class={isNumber ? "number" : ""}
          aria-sort={sortBy.value === key ? (isDescending.value ? "descending" : "ascending") : "none"}
        >
          <button type="button" class="head" title={about} onClick={() => sort(key)}>
            {title}
          </button>
        </th>
      ))}
      <th scope="col" class="wide" title="waits and misses of the last minute">
        last minute
      </th>
      {price.value > 0 && (
        <th scope="col" class="number" title="cost of the promise in an hour, and the used part of it">
          cost/h
        </th>
      )}
    </tr>
  );
}

function MarkAll() {
  const all = shown(vms.value);
  const isAll = all.length > 0 && all.every((vm) => marked.value.has(vm.id));
  const mark = () => (marked.value = new Set(isAll ? [] : all.map((vm) => vm.id)));
  return <input type="checkbox" aria-label="mark all VMs" checked={isAll} onChange={mark} />;
}

function mark(id: string): void {
  const next = new Set(marked.value);
  if (!next.delete(id)) next.add(id);
  marked.value = next;
}

function Row({ id }: { id: string }) {
  // Each row follows its own VM, so that a message changes only the rows of the VMs that have changed.
  const vm = useComputed(() => vms.value.get(id)).value;
  const sample = useComputed(() => samples.value.get(id)?.at(-1)).value;
  if (!vm) return null;
  const [part, used] = [delivered(vm), efficiency(vm)];
  const { judged, missed } = vm.measured;
  return (
    <tr class={edited.value === id ? "edited" : ""} data-vm={id}>
      {mayChange.value && (
        <td>
          <input type="checkbox" aria-label={`mark ${vm.name}`} checked={marked.value.has(id)} onChange={() => mark(id)} />
        </td>
      )}
      <th scope="row">
        <button type="button" class="link" onClick={() => (edited.value = edited.value === id ? undefined : id)}>
          {vm.name}
        </button>
        {vm.kind === "process" && vm.process && <span class="quiet"> {vm.process.pid}</span>}
      </th>
      <td>
        <span class={`phase ${vm.state.phase}`} title={[vm.state.reason, vm.state.remedy].filter(Boolean).join("; ")}>
          {vm.state.phase}
        </span>
      </td>
      <td class="asked">{asked(vm)}</td>
      <td class="number">{granted(vm) > 0 ? percent(granted(vm)) : "–"}</td>
      <td class="number">{part === undefined ? "–" : percent(part)}</td>
      <td class={`number ${missed > 0 ? "bad" : ""}`}>{judged > 0 ? `${missed}/${judged}` : "–"}</td>
      <td class="number" title={used === undefined ? "" : `${percent(used)} of what is granted`}>
        {sample ? percent(sample.used) : "–"}
      </td>
      <td class="number">{sample ? percent(sample.waited) : "–"}</td>
      <td class="wide">
        <Sparkline id={id} />
      </td>
      {price.value > 0 && <td class="number">{cost(vm, used)}</td>}
    </tr>
  );
}

function cost(vm: Vm, used: number | undefined): string {
  const perHour = granted(vm) * price.value;
  return used === undefined ? "–" : `${perHour.toFixed(3)} (${percent(Math.min(1, used))} used)`;
}

export function Table() {
  const ids = useSignal<readonly string[]>([]);
  useSignalEffect(() => {
    // The values are read for the order only once a second if it does not depend on the VMs themselves.
    if (sortBy.value === "used" || sortBy.value === "waited" || sortBy.value === "delivered") void samples.value;
    const next = shown(vms.value).map((vm) => vm.id);
    if (next.length !== ids.peek().length || next.some((id, at) => id !== ids.peek()[at])) ids.value = next;
  });
  const total = vms.value.size;
  return (
    <table>
      <caption class="hidden">The VMs of the host</caption>
      <thead>
        <Heads />
      </thead>
      <tbody>
        {ids.value.map((id) => (
          <Row key={id} id={id} />
        ))}
        {ids.value.length === 0 && (
          <tr>
            <td colSpan={12} class="empty">
              {total === 0 ? "No VMs run on this host." : `None of the ${total} VMs has these words and this state.`}
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}
