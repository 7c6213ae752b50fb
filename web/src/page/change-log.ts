// The changes of a host in words, and how each is undone.

import type { Desired, Event } from "./api";
import { desiredText } from "./rows";

type Changed = Extract<Event, { event: "changed" }>;

/** Changes that no client has made. */
const CARRIERS = ["label-file", "libvirt", "nothing"];

/** Returns what has happened. */
export function description(event: Event): string {
  switch (event.event) {
    case "appeared":
      return `VM appeared, pid ${event.pid}`;
    case "ended":
      return "VM ended";
    case "changed":
      return `${event.before ? `${desiredText(event.before)} → ` : ""}${desiredText(event.desired)}`;
    case "state":
      return [event.phase + (event.mechanism ? `, by ${event.mechanism}` : ""), event.reason].filter(Boolean).join(": ");
    case "core":
      return event.is_connected ? "core connected" : `core lost${event.reason ? `: ${event.reason}` : ""}`;
    case "gap":
      return "events are missing";
  }
}

export interface Undo {
  id: string;
  desired: Desired;
  /** Whether the change is the last one of its VM. */
  isLast: boolean;
}

/** Returns what undoes a change; `undefined`: the change cannot be undone, or it has changed nothing. */
export function undo(event: Event, all: readonly Event[]): Undo | undefined {
  if (event.event !== "changed" || event.vm === undefined || !event.before) return undefined;
  if (desiredText(event.before) === desiredText(event.desired)) return undefined;
  const ofVm = all.filter((other): other is Changed => other.event === "changed" && other.vm === event.vm);
  const at = ofVm.findIndex(({ number }) => number === event.number);
  const earlier = ofVm[at - 1];
  // What a VM carries is in force again when nothing is set; a client that sets the same would hide later label files.
  const wasCarried = earlier !== undefined && CARRIERS.includes(earlier.by);
  const desired = wasCarried ? { paused: false } : event.before;
  return { id: event.vm, desired, isLast: at === ofVm.length - 1 };
}

/** Returns whether an event has every word of the query. */
export function eventMatches(event: Event, name: string, query: string): boolean {
  const by = event.event === "changed" ? event.by : "";
  const text = [name, event.vm ?? "", event.event, by, description(event)].join(" ").toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
