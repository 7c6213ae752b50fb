// The picture of a recording on a canvas: a lane for each CPU.

import { hue } from "./hue";
import { shortDuration } from "./quantity";
import { firstAfter, type Recording, type Span } from "./recording";
import { color } from "./settings";

/** Range of the height of a lane. Unit: px. */
const LANE = { least: 22, most: 48 };
/** Height of all lanes, unless they are many. Unit: px. */
const LANES = 220;
/** Width of the names of the CPUs, and height of the scale. Unit: px. */
export const MARGIN = 46;
const SCALE = 18;

function laneHeight({ cpus }: Recording): number {
  return Math.max(LANE.least, Math.min(LANE.most, Math.floor(LANES / Math.max(1, cpus.size))));
}

export function heightOf(recording: Recording): number {
  return SCALE + laneHeight(recording) * recording.cpus.size;
}

export function laneAt(recording: Recording, y: number): number | undefined {
  return [...recording.cpus.keys()][Math.floor((y - SCALE) / laneHeight(recording))];
}

/** Draws the part `span`. The thread with the tid `marked` stands out. */
export function draw(canvas: HTMLCanvasElement, recording: Recording, span: Span, marked: number | undefined): void {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, heightOf(recording)];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  if (!context) return;
  context.scale(ratio, ratio);
  context.font = "12px system-ui, sans-serif";
  const x = (at: number) => MARGIN + ((at - span.from) / (span.to - span.from)) * (width - MARGIN);
  drawScale(context, span, x, height);
  const high = laneHeight(recording);
  [...recording.cpus].forEach(([cpu, runs], at) => {
    const lane = { context, recording, span, x, top: SCALE + at * high, high, marked };
    drawRecorded(lane);
    drawRuns(lane, runs);
    context.fillStyle = color("muted");
    context.clearRect(0, lane.top, MARGIN - 1, high);
    context.fillText(`CPU ${cpu}`, 2, lane.top + high / 2 + 4);
  });
}

type Place = (at: number) => number;

function drawScale(context: CanvasRenderingContext2D, span: Span, x: Place, height: number): void {
  const length = span.to - span.from;
  const digits = 10 ** Math.floor(Math.log10(length / 4));
  const step = [1, 2, 5, 10].map((factor) => factor * digits).find((step) => length / step <= 8) ?? digits;
  context.strokeStyle = color("line");
  context.fillStyle = color("muted");
  for (let at = step; at < length; at += step) {
    const place = Math.round(x(span.from + at)) + 0.5;
    context.beginPath();
    context.moveTo(place, SCALE - 4);
    context.lineTo(place, height);
    context.stroke();
    context.fillText(`+${shortDuration(at)}`, place + 3, SCALE - 6);
  }
}

/** Recorded time without a run is idle; time that was not recorded has no ground. */
function drawRecorded({ context, recording, span, x, top, high }: Lane): void {
  context.fillStyle = color("reserve");
  for (const { from, to } of recording.spans) {
    const [left, right] = [x(Math.max(from, span.from)), x(Math.min(to, span.to))];
    if (right > left) context.fillRect(left, top + 2, right - left, high - 4);
  }
}

interface Lane {
  context: CanvasRenderingContext2D;
  recording: Recording;
  span: Span;
  x: Place;
  top: number;
  high: number;
  marked: number | undefined;
}

function drawRuns({ context, recording, span, x, top, high, marked }: Lane, runs: { from: number; to: number; tid: number }[]): void {
  const other = color("muted");
  for (let at = firstAfter(runs, span.from); at < runs.length; at += 1) {
    const run = runs[at];
    if (!run || run.from >= span.to) break;
    const thread = recording.threads.get(run.tid);
    const [left, right] = [Math.max(MARGIN, x(run.from)), x(run.to)];
    context.fillStyle = thread?.vm === undefined ? other : hue(thread.vm);
    // A thread of no VM is a lower block, so that interference is seen without its color.
    const inset = thread?.vm === undefined ? Math.floor(high / 4) : 3;
    context.globalAlpha = marked === undefined || marked === run.tid ? 1 : 0.35;
    context.fillRect(left, top + inset, Math.max(0.5, right - left), high - 2 * inset);
    const name = thread?.name ?? "";
    if (right - left > 8 + 6 * name.length && thread?.vm !== undefined) {
      context.fillStyle = color("background");
      context.fillText(name, left + 4, top + high / 2 + 4);
    }
  }
  context.globalAlpha = 1;
}
