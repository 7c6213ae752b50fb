import { computed, signal, type Signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { sparkPath } from "./samples";
import type { Row } from "./store";

/** Size in units of a tenth of a pixel. */
const WIDTH = 600;
const HEIGHT = 140;
/** Value at the top of a sparkline, unless it has a higher one. */
const MOST = { missed: 0.1, waited: 0.2 };

const visible = new WeakMap<Element, Signal<boolean>>();
const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const isVisible = visible.get(target);
    if (isVisible) isVisible.value = isIntersecting;
  }
});

/** The last minute of a VM. It is drawn only while it is visible. */
export function Sparkline({ row, of }: { row: Row; of: "missed" | "waited" }) {
  const svg = useRef<SVGSVGElement>(null);
  const isVisible = useMemo(() => signal(false), []);
  const path = useMemo(() => computed(() => (isVisible.value ? pathOf(row, of) : "")), [row, of]);
  useEffect(() => {
    const element = svg.current;
    if (!element) return undefined;
    visible.set(element, isVisible);
    observer.observe(element);
    return () => observer.unobserve(element);
  }, []);
  return (
    <svg ref={svg} class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

function pathOf({ samples, sampled }: Row, of: "missed" | "waited"): string {
  sampled.value;
  const values = samples.all.map((sample) =>
    of === "waited" ? sample.waited : sample.judged > 0 ? sample.missed / sample.judged : 0,
  );
  // A VM without a miss has no line in the color of misses.
  if (of === "missed" && values.every((value) => value === 0)) return "";
  return sparkPath(values, MOST[of], WIDTH, HEIGHT);
}
