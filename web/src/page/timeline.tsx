// The rolling timeline: which thread ran on each CPU. A click holds it, the wheel and the keys + and - zoom, and the pointer
// names the thread.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Timeline } from "./api";
import { usePolled } from "./polled";
import { edited, vms } from "./store";
import { roughTime } from "./units";

const ROW = 26;
const GAP = 6;
const NAMES = 56;
const LENGTH = 200;

// The visible part of a timeline, as shares of its length.
interface Part {
  from: number;
  to: number;
}

const WHOLE: Part = { from: 0, to: 1 };

// Returns the thread at a point of the canvas, and its stretch.
function at(timeline: Timeline, part: Part, width: number, x: number, y: number) {
  const row = timeline.cpus[Math.floor(y / (ROW + GAP))];
  const share = part.from + ((x - NAMES) / (width - NAMES)) * (part.to - part.from);
  const ns = share * timeline.length_ns;
  const stretch = x >= NAMES ? row?.stretches.find(([from, to]) => from <= ns && ns < to) : undefined;
  const thread = stretch && timeline.threads[stretch[2]];
  return row && stretch && thread ? { row, stretch, thread } : undefined;
}

function draw(canvas: HTMLCanvasElement, timeline: Timeline, part: Part): void {
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const [width, height] = [canvas.clientWidth, timeline.cpus.length * (ROW + GAP)];
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  pen.scale(devicePixelRatio, devicePixelRatio);
  const style = getComputedStyle(canvas);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const [text, other, vm, chosen, room] = ["--text", "--other", "--wait", "--chosen", "--room"].map(colour) as [string, string, string, string, string];
  pen.font = `12px ${style.fontFamily}`;
  pen.textBaseline = "middle";
  const scale = (width - NAMES) / ((part.to - part.from) * timeline.length_ns);
  const start = part.from * timeline.length_ns;
  timeline.cpus.forEach(({ cpu, stretches }, row) => {
    const top = row * (ROW + GAP);
    pen.fillStyle = room;
    pen.fillRect(NAMES, top, width - NAMES, ROW);
    for (const [from, to, index] of stretches) {
      const thread = timeline.threads[index];
      const [left, right] = [Math.max(NAMES, NAMES + (from - start) * scale), NAMES + (to - start) * scale];
      if (right < NAMES || left > width) continue;
      pen.fillStyle = !thread?.vm ? other : thread.vm === edited.peek() ? chosen : vm;
      pen.fillRect(left, top, Math.max(0.6, right - left - 0.3), ROW);
      const name = thread?.name ?? "";
      if (name && right - left > pen.measureText(name).width + 8) {
        pen.fillStyle = colour("--on-bar");
        pen.fillText(name, left + 4, top + ROW / 2);
      }
    }
    pen.fillStyle = text;
    pen.fillText(`CPU ${cpu}`, 0, top + ROW / 2);
  });
}

function Canvas({ timeline, isHeld, hold }: { timeline: Timeline; isHeld: boolean; hold: () => void }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const part = useSignal<Part>(WHOLE);
  const about = useSignal("");
  useEffect(() => {
    if (canvas.current) draw(canvas.current, timeline, part.value);
  });
  const zoom = (factor: number, centre: number) => {
    const { from, to } = part.peek();
    const length = Math.min(1, Math.max(0.002, (to - from) * factor));
    const middle = from + (to - from) * centre;
    const first = Math.min(1 - length, Math.max(0, middle - length * centre));
    part.value = { from: first, to: first + length };
  };
  const move = (share: number) => {
    const { from, to } = part.peek();
    const first = Math.min(1 - (to - from), Math.max(0, from + share * (to - from)));
    part.value = { from: first, to: first + (to - from) };
  };
  const centre = (event: MouseEvent) => (event.offsetX - NAMES) / ((canvas.current?.clientWidth ?? 1) - NAMES);
  useEffect(() => {
    const element = canvas.current;
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, centre(event))));
    };
    element?.addEventListener("wheel", wheel, { passive: false });
    return () => element?.removeEventListener("wheel", wheel);
  }, []);
  const keys: Record<string, () => void> = {
    "+": () => zoom(0.8, 0.5),
    "-": () => zoom(1.25, 0.5),
    ArrowLeft: () => move(-0.2),
    ArrowRight: () => move(0.2),
    Home: () => (part.value = WHOLE),
    " ": hold,
  };
  const hover = (event: MouseEvent) => {
    const found = at(timeline, part.peek(), canvas.current?.clientWidth ?? 1, event.offsetX, event.offsetY);
    if (!found) return (about.value = "");
    const { row, stretch, thread } = found;
    const of = thread.vm ? ` of ${vms.value.get(thread.vm)?.name ?? thread.vm}` : thread.pid ? ` of process ${thread.pid}` : "";
    return (about.value = `CPU ${row.cpu}: ${thread.name ?? "a thread that has ended"} (${thread.tid})${of} ran for ${roughTime(stretch[1] - stretch[0])}`);
  };
  return (
    <>
      <canvas
        ref={canvas}
        class="timeline"
        tabIndex={0}
        role="img"
        aria-label="which thread ran on each CPU; + and - zoom, the arrow keys move, the space bar holds"
        onMouseMove={hover}
        onMouseLeave={() => (about.value = "")}
        onClick={hold}
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (act) {
            event.preventDefault();
            act();
          }
        }}
      />
      <p class="note" aria-live="off">
        {about.value ||
          `${roughTime((part.value.to - part.value.from) * timeline.length_ns)} are shown${isHeld ? ", held" : ""}. Click to ${isHeld ? "go on" : "hold"}; the wheel zooms.`}
      </p>
    </>
  );
}

export function TimelineView() {
  const polled = usePolled<Timeline>(`/v1/timeline?length_ms=${LENGTH}`, 300);
  const held = useSignal<Timeline | undefined>(undefined);
  const { value, problem } = polled.value;
  const timeline = held.value ?? value;
  if (!timeline) return <p class="note">{problem ?? "Recording…"}</p>;
  if (timeline.unrecorded) return <p class="note bad">The context switches cannot be recorded: {timeline.unrecorded}</p>;
  return (
    <section aria-label="timeline">
      {problem && <p class="note bad">{problem}</p>}
      <p class="note legend">
        <span class="swatch vm" /> threads of VMs <span class="swatch chosen" /> of the VM in the editor{" "}
        <span class="swatch other" /> other threads
        {timeline.lost > 0 && ` · ${timeline.lost} switches were lost`}
      </p>
      <Canvas timeline={timeline} isHeld={held.value !== undefined} hold={() => (held.value = held.value ? undefined : value)} />
    </section>
  );
}
