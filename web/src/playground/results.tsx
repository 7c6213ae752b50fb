// The results of the runs side by side.

import { type Measured, rows } from "./report";
import { results } from "./session";
import { time } from "./time";

/** Maximum number of rows of the table. */
const ROWS_MOST = 60;

interface Column {
  name: string;
  /** What the column contains, for the tooltip. */
  about: string;
  show(measured: Measured): string;
}

const latency = (of: (measured: Measured) => number) => (measured: Measured) =>
  measured.wakeups === 0 ? "–" : time(of(measured), 3);

const COLUMNS: Column[] = [
  { name: "CPU", about: "CPU time in percent of one CPU", show: (it) => `${(it.delivered_ppm / 1e4).toFixed(1)} %` },
  {
    name: "missed",
    about: "Missed deadlines of all released jobs",
    show: (it) => (it.releases === 0 ? "–" : `${it.misses + it.unfinished_late}/${it.releases}`),
  },
  { name: "p50", about: "Median of the wake-up latency", show: latency((it) => it.wakeup_p50_ns) },
  { name: "p99", about: "99th percentile of the wake-up latency", show: latency((it) => it.wakeup_p99_ns) },
  { name: "max", about: "Maximum of the wake-up latency", show: latency((it) => it.wakeup_max_ns) },
];

const isMissed = (measured: Measured) => measured.misses + measured.unfinished_late > 0;

export function ResultsTable() {
  if (!results.value) {
    return null;
  }
  const { runs } = results.value;
  const all = rows(runs);
  const shown = all.slice(0, ROWS_MOST);
  return (
    <section aria-labelledby="playground-results">
      <h2 id="playground-results">Results</h2>
      <div class="scrolls" tabIndex={0} role="region" aria-labelledby="playground-results">
        <table class="results">
          <thead>
            <tr>
              <td />
              {runs.map((run) => (
                <th scope="colgroup" colSpan={COLUMNS.length}>
                  {run.policy}
                </th>
              ))}
            </tr>
            <tr>
              <th scope="col">entity</th>
              {runs.flatMap(() =>
                COLUMNS.map(({ name, about }, at) => (
                  <th scope="col" class={at === 0 ? "first" : ""}>
                    <abbr title={about}>{name}</abbr>
                  </th>
                )),
              )}
            </tr>
          </thead>
          <tbody>
            {shown.map(({ name, cells }) => (
              <tr>
                <th scope="row">{name}</th>
                {cells.flatMap((measured) =>
                  COLUMNS.map(({ name, show }, at) => (
                    <td class={`${at === 0 ? "first" : ""} ${name === "missed" && measured && isMissed(measured) ? "bad" : ""}`}>
                      {measured ? show(measured) : ""}
                    </td>
                  )),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="note">
        CPU: CPU time in percent of one CPU. Missed: missed deadlines of all released jobs. p50, p99 and max: wake-up latency.
        {all.length > shown.length && ` ${all.length - shown.length} more entities are in the report.`}{" "}
        <a href="docs/report.html">All fields of the report</a>
      </p>
    </section>
  );
}
