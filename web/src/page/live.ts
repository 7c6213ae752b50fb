// The stream of the service. One tab of the browser reads it, and passes the messages on to the others, because a browser
// has only a few connections to a host.

import { createParser } from "eventsource-parser";
import type { Caller, Host, HostEvent, LiveVms, Usages, Vm } from "./api";
import { read } from "./api";
import { caller, changes, heard, host, now, takeEvent, takeUsages, takeVms } from "./store";

// Pause before the stream is opened again after a failure. Unit: ms.
const PAUSE = 1_000;
// Interval between two messages with states. Unit: ms.
const INTERVAL = 250;
// Silence after which the stream counts as broken. The service sends usage once a second. Unit: ms.
const SILENCE = 10_000;

type Message =
  | { kind: "vms"; isFirst: boolean; content: LiveVms }
  | { kind: "usage"; content: Usages }
  | { kind: "event"; content: HostEvent }
  // A tab that has just opened needs all VMs.
  | { kind: "hello" };

const channel = new BroadcastChannel("tactus-live");

function take(message: Message): void {
  if (message.kind === "vms") takeVms(message.content, message.isFirst);
  if (message.kind === "usage") takeUsages(message.content);
  if (message.kind === "event") {
    takeEvent(message.content);
    if (message.content.event === "core") void readHost();
  }
}

async function readHost(): Promise<void> {
  try {
    [host.value, caller.value] = await Promise.all([read<Host>("/v1/host"), read<Caller>("/v1/caller")]);
    heard.value = Date.now();
  } catch {
    // The banner shows that the values are old.
  }
}

// Reads the stream until it fails. `after` is the number of the last event that was read; 0: all that the service still has,
// for the log of changes. Returns the number of the last event.
async function follow(after: number): Promise<number> {
  const known = new Map<string, Vm>();
  let isFirst = true;
  const pass = (message: Message) => {
    take(message);
    channel.postMessage(message);
  };
  const answer = ({ data }: MessageEvent<Message>) => {
    if (data.kind !== "hello") return;
    const content = { at_ms: Date.now(), vms: [...known.values()], gone: [] };
    channel.postMessage({ kind: "vms", isFirst: true, content } satisfies Message);
    for (const content of [...changes.peek()].reverse()) channel.postMessage({ kind: "event", content } satisfies Message);
  };
  const parser = createParser({
    onEvent({ event, data }) {
      if (event === "vms") {
        const content = JSON.parse(data) as LiveVms;
        for (const vm of content.vms) known.set(vm.id, vm);
        for (const id of content.gone) known.delete(id);
        pass({ kind: "vms", isFirst, content });
        isFirst = false;
      } else if (event === "usage") {
        pass({ kind: "usage", content: JSON.parse(data) as Usages });
      } else {
        const content = JSON.parse(data) as HostEvent;
        after = content.number;
        pass({ kind: "event", content });
      }
    },
  });
  channel.addEventListener("message", answer);
  const silence = new AbortController();
  let patience = setTimeout(() => silence.abort(), SILENCE);
  try {
    const headers = { "Last-Event-ID": String(after) };
    const reply = await fetch(`/v1/live?interval_ms=${INTERVAL}`, { headers, cache: "no-store", signal: silence.signal });
    const reader = reply.ok ? reply.body?.pipeThrough(new TextDecoderStream()).getReader() : undefined;
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      clearTimeout(patience);
      patience = setTimeout(() => silence.abort(), SILENCE);
      parser.feed(part.value);
    }
  } catch {
    // The banner shows that the values are old, and the stream is opened again.
  } finally {
    clearTimeout(patience);
    channel.removeEventListener("message", answer);
  }
  return after;
}

async function followForEver(): Promise<void> {
  let after = 0;
  for (;;) {
    await readHost();
    after = await follow(after);
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

// Follows the service, in this tab or through the tab that does already.
export function begin(): void {
  setInterval(() => (now.value = Date.now()), 500);
  let isLeader = false;
  channel.addEventListener("message", ({ data }: MessageEvent<Message>) => {
    if (!isLeader) take(data);
  });
  void readHost();
  channel.postMessage({ kind: "hello" } satisfies Message);
  void navigator.locks.request("tactus-live", () => {
    isLeader = true;
    return followForEver();
  });
}
