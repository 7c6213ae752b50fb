// The history of VMs as columns of a chart.

import type { History, Series, TimeGrid } from "./api";
import type { TimeRange } from "./address";

export const MEASURES = ["missed", "delivered", "short"] as const;
export type Measure = (typeof MEASURES)[number];

export interface Columns {
  /** Middles of the intervals. Unit: s since 1970-01-01 00:00 UTC. */
  times: number[];
  vms: { id: string; name: string; values: Record<Measure, (number | null)[]> }[];
}

export function bounds(range: TimeRange, now_ms: number): { from_ms: number; to_ms: number } {
  return "from_ms" in range ? range : { from_ms: now_ms - range.last_ms, to_ms: now_ms };
}

/** Returns the index of the finest grid that reaches back to `from_ms`; of the coarsest, if none does. */
export function gridFor(grids: readonly TimeGrid[], from_ms: number): number {
  const at = grids.findIndex((grid) => grid.from_ms <= from_ms + grid.interval_ms);
  return at < 0 ? grids.length - 1 : at;
}

/** Returns the values of the chosen VMs on one grid. */
export function columns({ grids, vms }: History, at: number, chosen: (id: string) => boolean): Columns {
  const grid = grids[at];
  if (!grid) return { times: [], vms: [] };
  const times = Array.from({ length: grid.length }, (_, i) => (grid.from_ms + (i + 0.5) * grid.interval_ms) / 1000);
  const of = vms.filter(({ id }) => chosen(id)).flatMap(({ id, name, series }) => {
    const values = series[at];
    return values ? [{ id, name, values: measures(values) }] : [];
  });
  return { times, vms: of };
}

function measures({ judged, missed, due_us, delivered_us, short_us }: Series): Record<Measure, (number | null)[]> {
  return {
    missed: quotients(missed, judged, 100),
    delivered: quotients(delivered_us, due_us, 100),
    short: quotients(short_us, missed, 1e-3),
  };
}

/** An interval without a whole has no value. */
function quotients(parts: readonly (number | null)[], wholes: readonly (number | null)[], scale: number): (number | null)[] {
  return parts.map((part, at) => {
    const whole = wholes[at];
    return part === null || !whole ? null : (scale * part) / whole;
  });
}
