import type { History } from "./api";
import { Chart } from "./chart";
import { hue } from "./hue";
import { bounds, columns, gridFor, type Columns, type Measure } from "./past";
import { usePolled } from "./polled";
import { order, range, rows, selected } from "./store";
import { Trouble } from "./trouble";

/** Number of VMs in a chart: more lines are not told apart. */
const VMS_MOST = 8;

const RANGES: [title: string, last_ms: number][] = [
  ["5 min", 300_000],
  ["1 h", 3_600_000],
  ["6 h", 21_600_000],
  ["24 h", 86_400_000],
];

const CHARTS: [measure: Measure, title: string, unit: string][] = [
  ["missed", "Missed, of judged periods", "%"],
  ["delivered", "Delivered, of the CPU time due", "%"],
  ["short", "CPU time lacking at the end of a missed period, mean", "ms"],
];

/** Returns the VMs of the list, those with promises first: only promises have measurements. */
function promisedFirst(): string[] {
  const isPromised = (id: string) => rows.get(id)?.vm.peek().desired.promise !== undefined;
  return [...order.value].sort((a, b) => Number(isPromised(b)) - Number(isPromised(a)));
}

/** The measurements of the selected VMs, or of the first ones in the list, over time. */
export function HistoryView() {
  const shown = range.value;
  const isFixed = "from_ms" in shown;
  const { from_ms } = bounds(shown, Date.now());
  const path = () => `/v1/history?since_ms=${Math.max(0, Math.floor(bounds(shown, Date.now()).from_ms))}`;
  // The finest grid has a value a second.
  const interval = isFixed || shown.last_ms > 300_000 ? 5000 : 1000;
  const polled = usePolled<History>(path, interval, JSON.stringify(shown)).value;
  const ids = new Set(selected.value.length > 0 ? selected.value : promisedFirst().slice(0, VMS_MOST));
  const { value } = polled;
  const at = value ? gridFor(value.grids, from_ms) : 0;
  const shownColumns = value && columns(value, at, (id) => ids.has(id));
  const isCut = selected.value.length === 0 && order.value.length > VMS_MOST;
  return (
    <section class="past" aria-label="History">
      <Ranges />
      <Trouble polled={polled} what="history" />
      {isCut && <p class="note">The first {VMS_MOST} VMs of the list, those with promises first. Select VMs in the list to see others.</p>}
      {shownColumns && <Charts of={shownColumns} />}
      {shownColumns?.vms.length === 0 && <p class="nothing">These VMs have no history.</p>}
    </section>
  );
}

function Charts({ of: { times, vms } }: { of: Columns }) {
  const { from_ms, to_ms } = bounds(range.value, Date.now());
  const choose = (from_ms: number, to_ms: number) => {
    range.value = { from_ms, to_ms };
  };
  if (vms.length === 0) return null;
  return (
    <>
      {CHARTS.map(([measure, title, unit]) => (
        <Chart
          key={measure}
          title={title}
          unit={unit}
          times={times}
          lines={vms.map(({ id, name, values }) => ({ name, color: hue(id), values: values[measure] }))}
          from_ms={from_ms}
          to_ms={to_ms}
          onRange={choose}
        />
      ))}
    </>
  );
}

function Ranges() {
  const now = range.value;
  return (
    <div class="bar" role="group" aria-label="Time">
      {RANGES.map(([title, last_ms]) => (
        <button
          key={title}
          type="button"
          aria-pressed={"last_ms" in now && now.last_ms === last_ms}
          onClick={() => (range.value = { last_ms })}
        >
          {title}
        </button>
      ))}
      {"from_ms" in now && (
        <span>
          {clock(now.from_ms)} to {clock(now.to_ms)}
        </span>
      )}
      <span class="note">Select a part of a chart with the pointer to see it larger. The address of the page has the time.</span>
    </div>
  );
}

function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString("en-GB");
}
