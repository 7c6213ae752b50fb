import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useRef } from "preact/hooks";
import { color, isDark } from "./settings";

const HEIGHT = 170;
/** Charts with this key have one cursor. */
const CURSOR = "history";

export interface Line {
  name: string;
  color: string;
  values: (number | null)[];
}

interface Props {
  title: string;
  unit: string;
  times: number[];
  lines: Line[];
  from_ms: number;
  to_ms: number;
  onRange(from_ms: number, to_ms: number): void;
}

/** Lines over time. A selection with the pointer is the new range. */
export function Chart(props: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const latest = useRef(props);
  latest.current = props;
  const names = props.lines.map(({ name, color }) => `${name} ${color}`).join("\n");
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const made = new uPlot(options(latest, element.clientWidth), data(latest.current), element);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [names, isDark.value]);
  useEffect(() => {
    plot.current?.setData(data(props), false);
    plot.current?.setScale("x", { min: props.from_ms / 1000, max: props.to_ms / 1000 });
  }, [props.times, props.lines, props.from_ms, props.to_ms]);
  return (
    <figure>
      <figcaption>{props.title}</figcaption>
      <div class="chart" ref={place} role="img" aria-label={described(props)} />
    </figure>
  );
}

function data({ times, lines }: Props): uPlot.AlignedData {
  return [times, ...lines.map(({ values }) => values)];
}

/** The last value of each line, for screen readers. */
function described({ title, unit, lines }: Props): string {
  const last = lines.map(({ name, values }) => `${name} ${shown(values.findLast((value) => value !== null) ?? null, unit)}`);
  return `${title}; latest: ${last.join(", ")}`;
}

function shown(value: number | null | undefined, unit: string): string {
  return value === null || value === undefined ? "–" : `${value.toFixed(2)}${unit}`;
}

function options(props: { current: Props }, width: number): uPlot.Options {
  const { unit, lines } = props.current;
  const axis: uPlot.Axis = {
    stroke: color("muted"),
    grid: { stroke: color("line"), width: 1 },
    ticks: { stroke: color("line"), width: 1 },
    font: "12px system-ui, sans-serif",
  };
  return {
    width,
    height: HEIGHT,
    cursor: { sync: { key: CURSOR }, drag: { x: true, y: false, setScale: false } },
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(most ?? 0, unit === "%" ? 1 : 0.1) * 1.05] } },
    axes: [
      { ...axis, size: 28, space: 84, values: "{HH}:{mm}:{ss}" },
      { ...axis, size: 64, values: (_, values) => values.map((value) => `${value}${unit}`) },
    ],
    series: [
      { value: "{HH}:{mm}:{ss}" },
      ...lines.map(({ name, color }) => ({
        label: name,
        stroke: color,
        width: 1,
        spanGaps: false,
        points: { show: false },
        value: (_: uPlot, value: number | null) => shown(value, unit),
      })),
    ],
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 3) return;
          const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          props.current.onRange(from * 1000, to * 1000);
        },
      ],
    },
  };
}
