import { computed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { latency } from "./rows";
import { sparkPath } from "./samples";
import type { Row } from "./store";

/** Size in units of a tenth of a pixel. */
const WIDTH = 600;
const HEIGHT = 140;
/** Value at the top of a sparkline, unless it has a higher one: a part of the periods, and 1 ms. */
const MOST = { missed: 0.1, latency: 1e6 };

type Drawn = keyof typeof MOST;

/** The last minute of a VM. Only rows near the visible ones are in the document. */
export function Sparkline({ row, of }: { row: Row; of: Drawn }) {
  const path = useMemo(() => computed(() => pathOf(row, of)), [row, of]);
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

function pathOf({ samples, sampled }: Row, of: Drawn): string {
  sampled.value;
  const values = samples.all.map((sample) =>
    of === "latency" ? (latency(sample) ?? 0) : sample.judged > 0 ? sample.missed / sample.judged : 0,
  );
  // A VM without a miss has no line in the color of misses.
  if (of === "missed" && values.every((value) => value === 0)) return "";
  return sparkPath(values, MOST[of], WIDTH, HEIGHT);
}
