import { effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Problem, RunThread, Timeline } from "./api";
import { getIfKnown, problemOf } from "./client";
import { hue } from "./hue";
import { percent, shortDuration } from "./quantity";
import { NOTHING, extended, extent, runAt, totals, within, zoomed, type Recording, type Run, type Span } from "./recording";
import { isDark } from "./settings";
import { rows } from "./store";
import { MARGIN, draw, heightOf, laneAt } from "./timeline-picture";

/** Length of one reading: a view that rolls is this late. Unit: ms. */
const LENGTH_MS = 200;
/** Time that the page keeps. Unit: ns. */
const KEPT = 4e9;
/** Pause after a failure. Unit: ms. */
const PAUSE_MS = 2000;

const recording = signal<Recording>(NOTHING);
/** The shown part; `undefined`: the latest part rolls. */
const part = signal<Span | undefined>(undefined);
const rollingLength = signal(1e9);
const isRecording = signal(true);
const trouble = signal<{ problem?: Problem; isUnknown?: boolean; unrecorded?: string }>({});
const hovered = signal<{ cpu: number; run: Run; x: number; y: number } | undefined>(undefined);

function shownPart(): Span {
  const whole = extent(recording.value) ?? { from: 0, to: 1e9 };
  return part.value ?? { from: whole.to - rollingLength.value, to: whole.to };
}

/** Which thread runs on each CPU, now and in the last seconds. */
export function TimelineView() {
  useEffect(() => record(), []);
  const { problem, isUnknown, unrecorded } = trouble.value;
  return (
    <section class="timeline" aria-label="Timeline">
      <Controls />
      {isUnknown && <p class="nothing">This service has no timeline. A newer version has.</p>}
      {problem && <p class="problem">The timeline cannot be read: {problem.detail}</p>}
      {unrecorded && <p class="problem">Context switches are not recorded: {unrecorded}</p>}
      <Picture />
      <Threads />
    </section>
  );
}

/** Records while the view is shown. Returns what ends it. */
function record(): () => void {
  const abort = new AbortController();
  void (async () => {
    while (!abort.signal.aborted) {
      const end = performance.now() + LENGTH_MS;
      const isRead = !isRecording.peek() || document.hidden || (await readOnce(abort.signal));
      // A simulated host replies before the time has passed.
      await pause(isRead ? Math.max(0, end - performance.now()) : PAUSE_MS);
    }
  })();
  return () => abort.abort();
}

function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}

async function readOnce(signal: AbortSignal): Promise<boolean> {
  try {
    const read = await getIfKnown<Timeline>(`/v1/timeline?length_ms=${LENGTH_MS}`, signal);
    if (!read || read.unrecorded !== undefined) {
      trouble.value = read?.unrecorded === undefined ? { isUnknown: true } : { unrecorded: read.unrecorded };
      return false;
    }
    if (isRecording.peek()) recording.value = extended(recording.peek(), read, KEPT);
    trouble.value = {};
    return true;
  } catch (error) {
    if (!signal.aborted) trouble.value = { problem: problemOf(error) };
    return false;
  }
}

/** Zooms around a time; without one, around the middle. A part that is chosen no longer rolls, so recording ends. */
function zoom(factor: number, around?: number): void {
  const whole = extent(recording.peek());
  if (!whole) return;
  const now = shownPart();
  isRecording.value = false;
  part.value = zoomed(now, factor, around ?? (now.from + now.to) / 2, whole);
}

function move(by: number): void {
  const whole = extent(recording.peek());
  if (!whole) return;
  const { from, to } = shownPart();
  isRecording.value = false;
  part.value = within({ from: from + by * (to - from), to: to + by * (to - from) }, whole);
}

function roll(): void {
  part.value = undefined;
  isRecording.value = true;
}

function Controls() {
  return (
    <div class="bar">
      <button type="button" aria-pressed={isRecording.value} onClick={() => (isRecording.value ? (isRecording.value = false) : roll())}>
        {isRecording.value ? "Stop" : "Record"}
      </button>
      <label>
        Rolling
        <select
          value={rollingLength.value}
          onChange={(event) => {
            rollingLength.value = Number(event.currentTarget.value);
            part.value = undefined;
          }}
        >
          {[0.1e9, 0.5e9, 1e9, 4e9].map((length) => (
            <option key={length} value={length}>
              {shortDuration(length)}
            </option>
          ))}
        </select>
      </label>
      <button type="button" aria-label="Zoom in" onClick={() => zoom(0.5)}>
        +
      </button>
      <button type="button" aria-label="Zoom out" onClick={() => zoom(2)}>
        −
      </button>
      <Stopped />
      <span class="note">
        {recording.value.lost > 0 ? `${recording.value.lost} context switches are lost. ` : ""}
        High blocks are threads of VMs; low gray blocks are threads of no VM. The wheel zooms, and the pointer moves.
      </span>
    </div>
  );
}

/** When the picture stopped, with the way back. */
function Stopped() {
  const at = useRef("");
  if (isRecording.value) {
    at.current = "";
    return null;
  }
  at.current ||= new Date().toLocaleTimeString("en-GB");
  return (
    <span class="problem" role="status">
      Stopped at {at.current}.{" "}
      <button type="button" onClick={roll}>
        Go on
      </button>
    </span>
  );
}

function Picture() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drag = useRef<{ x: number; part: Span } | undefined>(undefined);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    const stop = effect(() => {
      isDark.value;
      draw(element, recording.value, shownPart(), hovered.value?.run.tid);
    });
    const resized = new ResizeObserver(() => draw(element, recording.peek(), shownPart(), undefined));
    resized.observe(element.parentElement ?? element);
    // A listener of the framework is passive, and cannot keep the page from scrolling.
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(element, event.offsetX));
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => {
      stop();
      resized.disconnect();
      element.removeEventListener("wheel", wheel);
    };
  }, []);
  const pointed = (event: PointerEvent) => {
    const element = event.currentTarget as HTMLCanvasElement;
    if (drag.current) return shift(element, event, drag.current);
    const cpu = laneAt(recording.peek(), event.offsetY);
    const run = cpu === undefined ? undefined : runAt(recording.peek(), cpu, timeAt(element, event.offsetX));
    hovered.value = run && cpu !== undefined ? { cpu, run, x: event.offsetX, y: event.offsetY } : undefined;
  };
  const height = heightOf(recording.value);
  return (
    <div class="picture">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label="Threads on each CPU over time. The table below has them as text. Arrow keys move, plus and minus zoom."
        style={{ height: `${height}px` }}
        onPointerMove={pointed}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          drag.current = { x: event.offsetX, part: shownPart() };
        }}
        onPointerUp={() => (drag.current = undefined)}
        onPointerLeave={() => (hovered.value = undefined)}
        onKeyDown={keyed}
      />
      <Tip />
    </div>
  );
}

function timeAt(canvas: HTMLCanvasElement, x: number): number {
  const { from, to } = shownPart();
  return from + ((x - MARGIN) / (canvas.clientWidth - MARGIN)) * (to - from);
}

function shift(canvas: HTMLCanvasElement, event: PointerEvent, { x, part: start }: { x: number; part: Span }): void {
  const whole = extent(recording.peek());
  if (!whole || Math.abs(event.offsetX - x) < 3) return;
  const by = ((x - event.offsetX) / (canvas.clientWidth - MARGIN)) * (start.to - start.from);
  isRecording.value = false;
  part.value = within({ from: start.from + by, to: start.to + by }, whole);
}

function keyed(event: KeyboardEvent): void {
  const actions: Record<string, () => void> = {
    ArrowLeft: () => move(-0.1),
    ArrowRight: () => move(0.1),
    "+": () => zoom(0.5),
    "-": () => zoom(2),
    Home: () => roll(),
  };
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

function nameOf(thread: RunThread | undefined, tid: number): string {
  const name = thread?.name ?? "ended thread";
  return thread?.pid !== undefined && thread.pid !== tid ? `${name} (${tid} of ${thread.pid})` : `${name} (${tid})`;
}

function owner(thread: RunThread | undefined): string {
  if (thread?.vm === undefined) return "no VM";
  return `${rows.get(thread.vm)?.vm.peek().name ?? thread.vm}${thread.is_vcpu ? ", vCPU" : ""}`;
}

/** The thread below the pointer. */
function Tip() {
  const there = hovered.value;
  if (!there) return null;
  const { run, cpu, x, y } = there;
  const thread = recording.value.threads.get(run.tid);
  const isRight = x > innerWidth / 2;
  const place = isRight ? { right: `calc(100% - ${x - 12}px)`, top: `${y + 14}px` } : { left: `${x + 12}px`, top: `${y + 14}px` };
  return (
    <div class="tip" style={place}>
      <b>{nameOf(thread, run.tid)}</b>
      <br />
      {owner(thread)}, on CPU {cpu} for {shortDuration(run.to - run.from)}
    </div>
  );
}

/** The shown part as text. */
function Threads() {
  const shown = shownPart();
  const { threads, cpus } = recording.value;
  const all = totals(recording.value, shown).slice(0, 20);
  const length = shown.to - shown.from;
  if (cpus.size === 0) return <p class="nothing">Recording.</p>;
  return (
    <table class="vms">
      <caption class="hidden">Threads in the shown part of the timeline</caption>
      <thead>
        <tr>
          <th scope="col">Thread</th>
          <th scope="col">VM</th>
          <th scope="col" class="number">CPU time</th>
          <th scope="col" class="number">Of a CPU</th>
          <th scope="col" class="number">Runs</th>
          <th scope="col" class="number">Longest</th>
        </tr>
      </thead>
      <tbody>
        {all.map(({ tid, ran, runs, longest }) => (
          <tr key={tid}>
            <th scope="row">
              <svg class="key" viewBox="0 0 8 8" aria-hidden="true">
                <rect width="8" height="8" fill={threads.get(tid)?.vm ? hue(threads.get(tid)?.vm ?? "") : "currentColor"} />
              </svg>
              {nameOf(threads.get(tid), tid)}
            </th>
            <td>{owner(threads.get(tid))}</td>
            <td class="number">{shortDuration(ran)}</td>
            <td class="number">{percent(ran / length)}</td>
            <td class="number">{runs}</td>
            <td class="number">{shortDuration(longest)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
