// The stream of the host: one for all tabs of a browser. The tab with the lock owns the connection and passes every message
// on; the lock goes to another tab when this one ends.

import { answered, problemOf } from "./client";
import { MessageReader, type Message } from "./server-events";

/** Interval between two messages with states. Unit: ms. */
const INTERVAL_MS = 100;
/** The usage arrives once a second, so a longer silence is a lost connection. Unit: ms. */
const SILENCE_MS = 5000;
/** Pauses before another attempt to connect. Unit: ms. */
const PAUSES = [250, 500, 1000, 2000, 4000];
const NAME = "tactus-live";

export interface Follower {
  message(message: Message): void;
  connected(): void;
  /** The connection is lost. `reason` is for the operator. */
  lost(reason: string): void;
  /** Returns messages that repeat what is known, for a tab that starts. */
  replay(): Message[];
}

type Passed = { kind: "message"; message: Message } | { kind: "lost"; reason: string } | { kind: "hello" } | { kind: "lead" };

/** Follows the host until the tab ends. */
export function follow(follower: Follower): void {
  const alone = !("locks" in navigator) || !("BroadcastChannel" in window);
  const channel = alone ? undefined : new BroadcastChannel(NAME);
  const lastId = { value: "0" };
  let isLeader = false;
  // A message to no tab costs as much as to one.
  let hasOthers = false;
  let heard = Date.now();
  const receive = (message: Message) => {
    heard = Date.now();
    if (message.id !== undefined) lastId.value = message.id;
    follower.connected();
    follower.message(message);
  };
  channel?.addEventListener("message", ({ data }: MessageEvent<Passed>) => {
    if (data.kind === "lead") channel.postMessage({ kind: "hello" } satisfies Passed);
    else if (data.kind === "hello") {
      hasOthers = true;
      if (isLeader) for (const message of follower.replay()) channel.postMessage({ kind: "message", message });
    } else if (data.kind === "message") receive(data.message);
    else follower.lost(data.reason);
  });
  const lead = () => {
    isLeader = true;
    channel?.postMessage({ kind: "lead" } satisfies Passed);
    const pass = (message: Message) => {
      receive(message);
      if (hasOthers) channel?.postMessage({ kind: "message", message } satisfies Passed);
    };
    const lost = (reason: string) => {
      follower.lost(reason);
      channel?.postMessage({ kind: "lost", reason } satisfies Passed);
    };
    return connect(lastId, pass, lost);
  };
  setInterval(() => {
    if (!isLeader && Date.now() - heard > SILENCE_MS) follower.lost("the tab that is connected is silent");
  }, 1000);
  if (alone) void lead();
  else {
    channel?.postMessage({ kind: "hello" } satisfies Passed);
    void navigator.locks.request(NAME, lead);
  }
}

/** Connects, again and again. Never returns, so that the tab keeps its lock. */
async function connect(
  lastId: { value: string },
  pass: (message: Message) => void,
  lost: (reason: string) => void,
): Promise<never> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      await stream(lastId.value, (message) => {
        attempt = -1;
        pass(message);
      });
      lost("the service has ended the connection");
    } catch (error) {
      lost(problemOf(error).detail);
    }
    const pause = PAUSES[Math.min(Math.max(attempt, 0), PAUSES.length - 1)];
    await new Promise((done) => setTimeout(done, pause));
  }
}

/** Reads one connection until it ends, or is silent for too long. */
async function stream(lastId: string, pass: (message: Message) => void): Promise<void> {
  const abort = new AbortController();
  let silence = 0;
  const wait = () => {
    clearTimeout(silence);
    silence = window.setTimeout(() => abort.abort(new Error("the service is silent")), SILENCE_MS);
  };
  wait();
  try {
    const headers = { Accept: "text/event-stream", "Last-Event-ID": lastId };
    const reply = await answered(await fetch(`/v1/live?interval_ms=${INTERVAL_MS}`, { headers, signal: abort.signal }));
    if (!reply.body) return;
    // A stream of decoded text would cost more for each piece than the decoding.
    const [bytes, text] = [reply.body.getReader(), new TextDecoder()];
    const messages = new MessageReader();
    let hasVms: boolean = false;
    for (;;) {
      const { done, value } = await bytes.read();
      if (done) return;
      wait();
      for (const message of messages.read(text.decode(value, { stream: true }))) {
        // The first message of a connection has all VMs: a VM that it lacks has ended meanwhile.
        const isWhole: boolean = message.name === "vms" && !hasVms;
        hasVms ||= isWhole;
        pass(isWhole ? { ...message, name: "all" } : message);
      }
    }
  } finally {
    clearTimeout(silence);
  }
}
