// The history of the promises: delivered time and misses, with one cursor for all charts and the range in the URL.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { History, Series, TimeGrid } from "./api";
import { range } from "./place";
import { usePolled } from "./polled";

const RANGES: Record<string, number> = { "5min": 300e3, "1h": 3_600e3, "24h": 86_400e3 };
const HEIGHT = 130;
// Number of VMs that are drawn. Unit: charts.
const CHARTS = 24;

const cursor = uPlot.sync("history");

// Returns the times of a grid in seconds, as uPlot needs them.
const times = (grid: TimeGrid) => Array.from({ length: grid.length }, (_, at) => (grid.from_ms + at * grid.interval_ms) / 1e3);

const ratio = (part: (number | null)[], whole: (number | null)[]) =>
  part.map((value, at) => {
    const all = whole[at];
    return value === null || all === null || all === undefined || all === 0 ? null : (100 * value) / all;
  });

function Chart({ name, grid, series }: { name: string; grid: TimeGrid; series: Series }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const data: uPlot.AlignedData = [times(grid), ratio(series.delivered_us, series.due_us), ratio(series.missed, series.judged)];
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const style = getComputedStyle(element);
    const colour = (variable: string) => style.getPropertyValue(variable).trim();
    const axis = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const percent = (_: uPlot, value: number | null) => (value === null ? "–" : `${value.toFixed(2)} %`);
    const made = new uPlot(
      {
        title: name,
        width: Math.max(280, element.clientWidth),
        height: HEIGHT,
        cursor: { sync: { key: cursor.key }, drag: { x: true, y: false } },
        scales: { y: { range: (_, least, most) => [Math.min(0, least), Math.max(100, most)] } },
        axes: [axis, { ...axis, values: (_, all) => all.map((value) => `${value} %`), size: 55 }],
        series: [
          {},
          { label: "delivered of due", stroke: colour("--wait"), width: 1.5, value: percent },
          { label: "missed", stroke: colour("--bad"), fill: colour("--bad-pale"), width: 1.5, value: percent },
        ],
        hooks: { setSelect: [(self) => choose(self)] },
      },
      data,
      element,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: Math.max(280, element.clientWidth), height: HEIGHT }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
    };
  }, [name]);
  useEffect(() => plot.current?.setData(data), [data]);
  return <div ref={place} class="chart" />;
}

// Makes the selected part of a chart the range of all charts.
function choose(plot: uPlot): void {
  const { left, width } = plot.select;
  if (width < 5) return;
  const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
  range.value = `${Math.floor(from * 1e3)}-${Math.ceil(to * 1e3)}`;
}

// Returns the ends of the range in ms since 1970.
function ends(): [number, number] {
  const [from, to] = range.value.split("-").map(Number);
  if (from !== undefined && to !== undefined && from < to) return [from, to];
  return [Date.now() - (RANGES[range.value] ?? 300e3), Date.now()];
}

// Returns the finest grid that reaches back to the start of the range.
function gridFor(grids: TimeGrid[], from: number): number {
  const age = Date.now() - from;
  const found = grids.findIndex((_, at) => age <= (Object.values(RANGES)[at] ?? Infinity) * 1.05);
  return found < 0 ? grids.length - 1 : found;
}

// Returns the part of a column that is within the range.
function within(history: History, vm: History["vms"][number], at: number, [from, to]: [number, number]) {
  const grid = history.grids[at];
  const series = vm.series[at];
  if (!grid || !series) return undefined;
  const first = Math.max(0, Math.floor((from - grid.from_ms) / grid.interval_ms));
  const last = Math.min(grid.length, Math.ceil((to - grid.from_ms) / grid.interval_ms));
  const cut = <T,>(column: T[]) => column.slice(first, last);
  return {
    grid: { ...grid, from_ms: grid.from_ms + first * grid.interval_ms, length: Math.max(0, last - first) },
    series: {
      judged: cut(series.judged),
      missed: cut(series.missed),
      due_us: cut(series.due_us),
      delivered_us: cut(series.delivered_us),
      short_us: cut(series.short_us),
    },
  };
}

export function HistoryView() {
  const { value, problem } = usePolled<History>("/v1/history", 1_000).value;
  const span = ends();
  const at = value ? gridFor(value.grids, span[0]) : 0;
  const isChosen = !(range.value in RANGES);
  return (
    <section aria-label="history">
      <p class="buttons" role="group" aria-label="range">
        {Object.keys(RANGES).map((name) => (
          <button type="button" aria-pressed={range.value === name} onClick={() => (range.value = name)}>
            {name}
          </button>
        ))}
        {isChosen && <span class="note">{span.map((ms) => new Date(ms).toLocaleTimeString()).join(" to ")}</span>}
        <span class="note">Drag over a chart to choose a range.</span>
      </p>
      {problem && <p class="note bad">{problem}</p>}
      {value?.vms.length === 0 && <p class="note">No VM had a promise yet.</p>}
      <div class="charts">
        {value?.vms.slice(0, CHARTS).map((vm) => {
          const part = within(value, vm, at, span);
          return part && <Chart key={vm.id} name={vm.name} grid={part.grid} series={part.series} />;
        })}
      </div>
      {value && value.vms.length > CHARTS && <p class="note">The first {CHARTS} VMs by name are drawn.</p>}
    </section>
  );
}
