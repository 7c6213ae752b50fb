// Positions in the timelines as instants, and parts of the run after a zoom.

import type { Simulated } from "../simulator/request";
import type { Range } from "./link";

/** Shortest part that the timelines show. Unit: ns. */
const RANGE_LEAST = 100;

/** Returns the instant at a horizontal position of a picture, within the part that the picture shows. Unit: pixels. */
export function instantAt({ plot_px: [left, width], shown_ns: [from, to] }: Simulated, x: number): number {
  const fraction = Math.min(1, Math.max(0, (x - left) / width));
  return Math.round(from + fraction * (to - from));
}

/** Returns the horizontal position of an instant. Unit: pixels. */
export function positionOf({ plot_px: [left, width], shown_ns: [from, to] }: Simulated, at: number): number {
  return left + ((at - from) / (to - from)) * width;
}

/** Returns the part between two instants in any order, at least `RANGE_LEAST` long, within a run of this length. */
export function between(a: number, b: number, length: number): Range {
  const size = Math.min(length, Math.max(RANGE_LEAST, Math.abs(a - b)));
  const from = Math.round(Math.max(0, Math.min(Math.min(a, b), length - size)));
  return [from, Math.round(from + size)];
}

/** Returns a part that is `factor` times as long, in which `at` has the same position. */
export function zoomed([from, to]: Range, factor: number, at: number, length: number): Range {
  const start = at - (at - from) * factor;
  return between(start, start + Math.max(RANGE_LEAST, (to - from) * factor), length);
}

/** Returns the part moved by a fraction of its length. */
export function moved([from, to]: Range, fraction: number, length: number): Range {
  const start = Math.max(0, from + fraction * (to - from));
  return between(start, start + (to - from), length);
}
