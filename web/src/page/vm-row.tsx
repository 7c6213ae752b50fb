import { computed, type ReadonlySignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { isDirty, trySelect } from "./editor";
import { count, percent, shortDuration } from "./quantity";
import { cost, deliveredPart, efficiency, grantedPart, latency, promiseText } from "./rows";
import { price } from "./settings";
import { Sparkline } from "./sparkline";
import { mayChangeAny, rows, selected, type Row } from "./store";

/** A value that is absent. */
const NONE = "–";

/** Returns the texts of a row. Each cell is a signal of its own, so a message changes only the texts that differ. */
function cells({ vm, samples, sampled }: Row) {
  const recent = computed(() => {
    sampled.value;
    return samples.recent();
  });
  const orNone = (part: number | undefined) => (part === undefined ? NONE : percent(part));
  return {
    name: computed(() => vm.value.name),
    about: computed(() => {
      const { id, name, kind, process } = vm.value;
      return [kind, process && `pid ${process.pid}`, id !== name && id].filter(Boolean).join(", ");
    }),
    phase: computed(() => vm.value.state.phase),
    state: computed(() => (vm.value.state.phase === "none" ? "no promise" : vm.value.state.phase)),
    reason: computed(() => vm.value.state.reason),
    asked: computed(() => promiseText(vm.value.desired.promise) || NONE),
    granted: computed(() => orNone(grantedPart(vm.value))),
    delivered: computed(() => orNone(deliveredPart(recent.value))),
    missed: computed(() => (vm.value.desired.promise ? count(vm.value.measured.missed) : NONE)),
    used: computed(() => orNone(recent.value?.used)),
    waited: computed(() => orNone(recent.value?.waited)),
    latency: computed(() => {
      const mean = latency(recent.value);
      return mean === undefined ? NONE : shortDuration(mean);
    }),
    efficiency: computed(() => orNone(efficiency(vm.value, recent.value))),
    weight: computed(() => String(vm.value.desired.weight ?? NONE)),
    cap: computed(() => (vm.value.desired.cap_percent === undefined ? NONE : `${vm.value.desired.cap_percent}%`)),
    cost: computed(() => cost(vm.value, price.value)?.toFixed(4) ?? NONE),
  };
}

/** `number` is the number of the row in the table. */
export function VmRow({ id, number }: { id: string; number: number }) {
  const row = rows.get(id);
  return row ? <PresentRow id={id} number={number} row={row} /> : null;
}

function PresentRow({ id, number, row }: { id: string; number: number; row: Row }) {
  const of = useMemo(() => cells(row), [row]);
  const isSelected = useMemo(() => computed(() => selected.value.includes(id)), [id]);
  return (
    <tr role="row" data-id={id} aria-rowindex={number} aria-selected={isSelected.value} onClick={(event) => open(event, id)}>
      {mayChangeAny.value && (
        <td class="check" role="cell">
          <input
            type="checkbox"
            aria-label={`Select ${of.name.value}`}
            checked={isSelected.value}
            onChange={(event) => toggle(event.currentTarget, id)}
          />
        </td>
      )}
      <th scope="row" role="rowheader" class="name">
        <button type="button" class="open" title={of.about.value}>
          {of.name}
        </button>
      </th>
      <td class="state" role="cell" data-phase={of.phase} title={of.reason.value}>
        {of.state}
      </td>
      <td class="asked" role="cell">{of.asked}</td>
      <Value name="granted" of={of.granted} />
      <Value name="delivered" of={of.delivered} />
      <td class="missed number" role="cell">
        <Sparkline row={row} of="missed" />
        {of.missed}
      </td>
      <Value name="used" of={of.used} />
      <Value name="waited" of={of.waited} />
      <td class="latency number" role="cell">
        <Sparkline row={row} of="latency" />
        {of.latency}
      </td>
      <Value name="efficiency" of={of.efficiency} />
      <Value name="weight" of={of.weight} />
      <Value name="cap" of={of.cap} />
      <Value name="cost" of={of.cost} />
    </tr>
  );
}

function Value({ name, of }: { name: string; of: ReadonlySignal<string> }) {
  return <td role="cell" class={`${name} number`}>{of}</td>;
}

function open(event: MouseEvent, id: string): void {
  const target = event.target as HTMLElement;
  if (target.closest(".check")) return;
  if (isDirty.peek() && selected.peek().includes(id)) return;
  trySelect([id]);
}

function toggle(box: HTMLInputElement, id: string): void {
  const others = selected.peek().filter((other) => other !== id);
  if (!trySelect(box.checked ? [...others, id] : others)) box.checked = !box.checked;
}
