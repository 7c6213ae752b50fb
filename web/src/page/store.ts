// The state of the page: signals that messages of the service and the operator change.

import { batch, computed, effect, signal, type Signal } from "@preact/signals";
import type { Caller, Event, Host, LiveVms, Usages, Vm } from "./api";
import { DEFAULT, parse, print, type Address, type View } from "./address";
import { get } from "./client";
import { follow } from "./live";
import { Samples } from "./samples";
import type { Message } from "./server-events";
import { ordered, type Sorting } from "./rows";

/** A VM, with signals for the row that shows it. */
export interface Row {
  readonly vm: Signal<Vm>;
  readonly samples: Samples;
  /** Number of samples: the signal that they have changed. */
  readonly sampled: Signal<number>;
}

/** Number of events that the page keeps, as many as the service. */
const EVENTS_MOST = 4096;

/** Number of updates that share the new samples: all samples of a host arrive at once, and would delay a frame. */
const SHARES = 8;
/** Number of samples until the rows are ordered again: rows that move every second cannot be read. */
const ARRANGED = 3;
/** Time until the next samples are shown. Unit: ms. */
const SAMPLES_MS = 200;

export type Connection = { is: "connecting" } | { is: "live" } | { is: "lost"; since: number; reason: string };

export const rows = new Map<string, Row>();
/** Changes when a VM comes, goes, or has another desired state, and every few seconds: what the order depends on. */
export const arrangement = signal(0);
/** Number of times that all VMs were sampled, once a second. */
export const sampled = signal(0);
export const host = signal<Host | undefined>(undefined);
export const caller = signal<Caller | undefined>(undefined);
export const connection = signal<Connection>({ is: "connecting" });
/** The events, the oldest first. */
export const events = signal<readonly Event[]>([]);
/** Whether the service no longer has events that the page has missed. */
export const hasGap = signal(false);

const start = typeof location === "undefined" ? DEFAULT : parse(location.search);
export const view = signal<View>(start.view);
export const query = signal(start.query);
export const sorting = signal<Sorting>(start.sorting);
export const selected = signal<readonly string[]>(start.selected);
export const range = signal(start.range);

export const address = computed<Address>(() => ({
  view: view.value,
  query: query.value,
  sorting: sorting.value,
  selected: [...selected.value],
  range: range.value,
}));

/** Whether the pointer is over the list: rows that move under it would make a click change another VM. */
export const isOrderHeld = signal(false);
let lastOrder: readonly string[] = [];
let lastKey = "";
/** Ids of the shown VMs. The same array as long as the order is the same, so that rows are placed only when it changes. */
export const order = computed<readonly string[]>(() => {
  arrangement.value;
  const entries = Array.from(rows.values(), ({ vm, samples }) => ({ vm: vm.peek(), sample: samples.recent() }));
  const next = ordered(entries, query.value, sorting.value);
  const key = JSON.stringify([query.value, sorting.value]);
  const isHeld = isOrderHeld.value && key === lastKey && hasSame(next, lastOrder);
  lastKey = key;
  if (isHeld) return lastOrder;
  const isSame = next.length === lastOrder.length && next.every((id, at) => id === lastOrder[at]);
  if (!isSame) lastOrder = next;
  return lastOrder;
});

function hasSame(some: readonly string[], others: readonly string[]): boolean {
  const ids = new Set(others);
  return some.length === others.length && some.every((id) => ids.has(id));
}

/** Returns whether the client may change a VM. The service decides; this keeps controls away that it would refuse. */
export function mayChange(by: Caller | undefined, vm: Vm | undefined): boolean {
  switch (by?.role) {
    case "admin":
      return true;
    case "operate":
      return !vm?.id.startsWith("pid:");
    case "own":
      return vm === undefined || (vm.process !== undefined && by.name === `uid:${vm.process.user}`);
    default:
      return false;
  }
}

/** Whether the client may change anything. */
export const mayChangeAny = computed(() => mayChange(caller.value, undefined));

/** Applies the VMs of a message. `isWhole`: the first message of a connection, and a VM that is missing has ended. A reply to
 * a change can overtake the stream, so a later message with an older generation does not replace it. */
export function applyVms({ vms, gone }: LiveVms, isWhole: boolean): void {
  batch(() => {
    let isArranged = false;
    for (const vm of vms) {
      const row = rows.get(vm.id);
      if (!isWhole && row && vm.generation < row.vm.peek().generation) continue;
      isArranged ||= !row || row.vm.peek().generation !== vm.generation;
      if (row) row.vm.value = vm;
      else rows.set(vm.id, { vm: signal(vm), samples: new Samples(), sampled: signal(0) });
    }
    const present = new Set(vms.map(({ id }) => id));
    const ended = isWhole ? [...rows.keys()].filter((id) => !present.has(id)) : gone;
    for (const id of ended) isArranged = rows.delete(id) || isArranged;
    if (isArranged) arrangement.value += 1;
  });
}

/** Rows with a new sample that they do not show yet. */
const unshown: Row[] = [];

export function applyUsages({ at_ns, vms }: Usages): void {
  for (const usage of vms) {
    const row = rows.get(usage.id);
    if (!row) continue;
    row.samples.add(at_ns, usage, row.vm.peek().measured);
    if (!unshown.includes(row)) unshown.push(row);
  }
}

/** Shows new samples of some rows. Returns whether others are left. */
export function showSamples(): boolean {
  if (unshown.length === 0) return false;
  batch(() => {
    for (const row of unshown.splice(0, Math.ceil(rows.size / SHARES))) row.sampled.value += 1;
    if (unshown.length > 0) return;
    sampled.value += 1;
    if (sampled.peek() % ARRANGED === 0) arrangement.value += 1;
  });
  return unshown.length > 0;
}

/** Adds events. A stream that is continued may repeat some. */
export function applyEvents(all: readonly Event[]): void {
  const known = events.peek();
  let last = known.at(-1)?.number ?? 0;
  const added: Event[] = [];
  for (const event of all) {
    // The first connection asks for all events, and the service has only the latest.
    if (event.event === "gap" && last > 0) hasGap.value = true;
    if (event.event === "gap" || event.number <= last) continue;
    added.push(event);
    last = event.number;
  }
  if (added.length === 0) return;
  events.value = [...known, ...added].slice(-EVENTS_MOST);
  if (added.some(({ event }) => event === "core")) void readHost();
}

/** Applies messages of the stream in their order. */
export function applyMessages(messages: readonly Message[]): void {
  const numbered: Event[] = [];
  for (const { name, data } of messages) {
    const content: unknown = JSON.parse(data);
    if (name === "vms" || name === "all") applyVms(content as LiveVms, name === "all");
    else if (name === "usage") applyUsages(content as Usages);
    else numbered.push(content as Event);
  }
  applyEvents(numbered);
}

/** Applies messages once a frame: several messages of a frame are one change of the page. */
function inFrames(): (message: Message) => void {
  let waiting: Message[] = [];
  let isPlanned = false;
  let more: ReturnType<typeof setTimeout> | undefined;
  const flush = () => {
    const now = waiting;
    [waiting, isPlanned] = [[], false];
    const isMore = batch(() => {
      applyMessages(now);
      return showSamples();
    });
    // The next message usually comes before.
    clearTimeout(more);
    if (isMore) more = setTimeout(plan, SAMPLES_MS);
  };
  const plan = () => {
    if (isPlanned) return;
    isPlanned = true;
    // A hidden tab has no frames.
    if (document.hidden) setTimeout(flush, 200);
    else requestAnimationFrame(flush);
  };
  return (message) => {
    waiting.push(message);
    plan();
  };
}

async function readHost(): Promise<void> {
  try {
    [host.value, caller.value] = await Promise.all([get<Host>("/v1/host"), get<Caller>("/v1/caller")]);
  } catch {
    // The stream reports that the service cannot be reached, and its next message reads the host again.
  }
}

/** Begins to follow the host, and to keep the address of the page. */
export function begin(): void {
  void readHost();
  const apply = inFrames();
  follow({
    message: apply,
    connected: () => {
      if (connection.peek().is === "live") return;
      connection.value = { is: "live" };
      void readHost();
    },
    lost: (reason) => {
      const before = connection.peek();
      connection.value = { is: "lost", since: before.is === "lost" ? before.since : Date.now(), reason };
    },
    replay: () => {
      const vms = Array.from(rows.values(), ({ vm }) => vm.peek());
      const all: LiveVms = { at_ms: Date.now(), vms, gone: [] };
      const past = events.peek().map((event) => ({ name: event.event, data: JSON.stringify(event), id: String(event.number) }));
      return [{ name: "vms", data: JSON.stringify(all) }, ...past];
    },
  });
  keepAddress();
}

function keepAddress(): void {
  let shown = view.peek();
  effect(() => {
    const now = address.value;
    const url = print(now) || location.pathname;
    // Another view is a step of the history of the browser; a filter is none.
    if (now.view === shown) history.replaceState(null, "", url);
    else history.pushState(null, "", url);
    shown = now.view;
  });
  window.addEventListener("popstate", () => {
    const there = parse(location.search);
    shown = there.view;
    batch(() => {
      view.value = there.view;
      query.value = there.query;
      sorting.value = there.sorting;
      selected.value = there.selected;
      range.value = there.range;
    });
  });
}
