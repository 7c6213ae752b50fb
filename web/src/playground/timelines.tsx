// The timelines: a picture for each policy, on one time axis.

import { computed, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Simulated } from "../simulator/request";
import { download } from "./download";
import { inputs, progress, resize, results, show, trace } from "./session";
import { time } from "./time";
import { between, instantAt, moved, positionOf, zoomed } from "./zoom";

/** The instants under the pointer: where a drag began, and the present instant. Unit: ns. */
const drag = signal<number | null>(null);
const pointer = signal<number | null>(null);

/** The pictures without their styles: the page has its own themes. */
const drawings = computed(() =>
  (results.value?.simulated.pictures ?? []).map((svg) => {
    const parsed = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
    parsed.querySelectorAll("style, script").forEach((element) => element.remove());
    return {
      width: Number(parsed.getAttribute("width")),
      height: Number(parsed.getAttribute("height")),
      svg: new XMLSerializer().serializeToString(parsed),
    };
  }),
);

/** Zooms by `factor` around an instant, by default around the middle. */
function zoom(simulated: Simulated, factor: number, at?: number): void {
  const [from, to] = simulated.shown_ns;
  show(zoomed([from, to], factor, at ?? (from + to) / 2, simulated.length_ns));
}

const move = (simulated: Simulated, fraction: number): void =>
  show(moved(simulated.shown_ns, fraction, simulated.length_ns));

/** The keys of the timelines. Returns whether the key has a meaning. */
function press(simulated: Simulated, key: string): boolean {
  const actions: Record<string, () => void> = {
    "+": () => zoom(simulated, 0.5),
    "=": () => zoom(simulated, 0.5),
    "-": () => zoom(simulated, 2),
    ArrowLeft: () => move(simulated, -0.25),
    ArrowRight: () => move(simulated, 0.25),
    "0": () => show(null),
  };
  actions[key]?.();
  return key in actions;
}

/** The marks over a picture: the selected part, and the instant under the pointer. */
function Marks({ simulated, width, height }: { simulated: Simulated; width: number; height: number }) {
  const at = pointer.value;
  if (at === null) {
    return null;
  }
  const x = positionOf(simulated, at);
  const begin = drag.value === null ? x : positionOf(simulated, drag.value);
  return (
    <svg class="marks" viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      {begin !== x && <rect class="selected" x={Math.min(begin, x)} y={0} width={Math.abs(begin - x)} height={height} />}
      <line class="instant" x1={x} x2={x} y1={44} y2={height} />
      <text class="instant-label" x={x} y={40} text-anchor={x > width / 2 ? "end" : "start"}>
        {time(at, 7)}
      </text>
    </svg>
  );
}

function Picture({ simulated, at, policy }: { simulated: Simulated; at: number; policy: string }) {
  const drawing = drawings.value[at];
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // A listener of Preact would be passive, and the page would scroll.
    const wheel = (event: WheelEvent) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        zoom(simulated, event.deltaY < 0 ? 0.8 : 1.25, instantOf(event));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        move(simulated, Math.sign(event.deltaX || event.deltaY) * 0.1);
      }
    };
    const picture = place.current!;
    picture.addEventListener("wheel", wheel, { passive: false });
    return () => picture.removeEventListener("wheel", wheel);
  });
  if (!drawing) {
    return null;
  }
  const { width, height, svg } = drawing;
  const instantOf = (event: MouseEvent): number => {
    const box = place.current!.getBoundingClientRect();
    return instantAt(simulated, ((event.clientX - box.left) / box.width) * width);
  };
  const release = (event: PointerEvent) => {
    const [begin, end] = [drag.value, instantOf(event)];
    drag.value = null;
    const [from, to] = simulated.shown_ns;
    if (begin !== null && Math.abs(end - begin) * 200 > to - from) {
      show(between(begin, end, simulated.length_ns));
    }
  };
  return (
    <figure class="timeline" data-policy={policy}>
      <div
        class="drawing"
        ref={place}
        onPointerDown={(event) => {
          if (event.button === 0) {
            event.currentTarget.setPointerCapture(event.pointerId);
            drag.value = pointer.value = instantOf(event);
          }
        }}
        onPointerMove={(event) => (pointer.value = instantOf(event))}
        onPointerUp={release}
        onPointerCancel={() => (drag.value = pointer.value = null)}
        onPointerLeave={() => drag.value === null && (pointer.value = null)}
      >
        <div dangerouslySetInnerHTML={{ __html: svg }} />
        <Marks simulated={simulated} width={width} height={height} />
      </div>
      <figcaption>
        <Downloads simulated={simulated} at={at} policy={policy} />
      </figcaption>
    </figure>
  );
}

function Downloads({ simulated, at, policy }: { simulated: Simulated; at: number; policy: string }) {
  const name = `${inputs.value.scenario}.${policy}`;
  const save = async () => {
    const text = await trace(policy);
    if (text !== undefined) {
      download(`${name}.trace`, "text/plain", text);
    }
  };
  return (
    <>
      <button type="button" onClick={() => download(`${name}.svg`, "image/svg+xml", simulated.pictures[at] ?? "")}>
        Picture<span class="unseen"> of {policy}</span> (SVG)
      </button>
      <button type="button" onClick={() => void save()}>
        Trace<span class="unseen"> of {policy}</span>
      </button>
    </>
  );
}

function Controls({ simulated }: { simulated: Simulated }) {
  const [from, to] = simulated.shown_ns;
  const button = (label: string, sign: string, action: () => void) => (
    <button type="button" aria-label={label} title={label} onClick={action}>
      {sign}
    </button>
  );
  return (
    <div class="controls" role="group" aria-label="Part of the run">
      {button("Zoom in", "+", () => zoom(simulated, 0.5))}
      {button("Zoom out", "−", () => zoom(simulated, 2))}
      {button("Earlier", "←", () => move(simulated, -0.25))}
      {button("Later", "→", () => move(simulated, 0.25))}
      <button type="button" onClick={() => show([0, simulated.length_ns])}>
        Whole run
      </button>
      <button type="button" disabled={inputs.value.range === null} onClick={() => show(null)}>
        Reset
      </button>
      <span class="note">
        {time(from, 7)} to {time(to, 7)} of {time(simulated.length_ns)}
      </span>
    </div>
  );
}

export function Timelines() {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => entry && resize(entry.contentRect.width));
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, []);
  const { simulated, runs } = results.value ?? { simulated: undefined, runs: [] };
  return (
    <section aria-labelledby="playground-timelines">
      <h2 id="playground-timelines">Timelines</h2>
      {simulated && <Controls simulated={simulated} />}
      <div
        class="timelines"
        ref={place}
        tabIndex={0}
        role="group"
        aria-label="Timelines. Plus and minus zoom, the arrow keys move, 0 resets."
        aria-busy={progress.value !== null}
        onKeyDown={(event) => {
          if (simulated && !event.ctrlKey && !event.altKey && !event.metaKey && press(simulated, event.key)) {
            event.preventDefault();
          }
        }}
      >
        {simulated && runs.map((run, at) => <Picture key={at} simulated={simulated} at={at} policy={run.policy} />)}
      </div>
      <p class="note">
        Drag over a timeline to zoom. Ctrl and the wheel zoom, Shift and the wheel move; with the keyboard: +, −, ←, → and 0.
      </p>
    </section>
  );
}
