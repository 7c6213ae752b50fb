"""The speed of the package, beside the command and beside one worker. `cargo xtask bench` runs this program.

- `run`: a process that imports the package, runs a scenario and prints its report, compared with `tactus sim --json`.
  Both print the same bytes. The runs alternate.
- `export`: from a finished run with ten million events, a pyarrow table of its trace, and the memory of the process.
- `sweep`: 2,000 cells on a Dask cluster of two workers, compared with one worker. CPU time outside the cells is the
  time of client, scheduler and workers minus the time of the same cells without a cluster.

The program fails if a target is missed. Times depend on other load; targets are ratios of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import tactus_sched as ts
from distributed import Client, LocalCluster

ROOT = Path(__file__).parents[3]
TWO_LEVEL = ROOT / "scenarios/bench-two-level.toml"
RUN = "import sys, tactus_sched as ts; sys.stdout.write(ts.run(ts.Scenario.from_file(sys.argv[1])).json())"
EXPORT = """
import resource, sys, time
import pyarrow as pa, tactus_sched as ts
tasks = [{"name": f"task{nth}", "workload": {"periodic": {"period": "1ms", "work": "90us"}}} for nth in range(8)]
it = ts.Scenario.from_dict({"name": "export", "cpus": 1, "length": sys.argv[1], "task": tasks})
result = ts.run(it, "cfs", trace=True)
begun = time.perf_counter()
table = pa.table(result.trace)
took = time.perf_counter() - begun
print(table.num_rows, took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
CELLS = 2_000
CELL_LENGTH = "700ms"


class Targets:
    """The targets and whether they are met."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def check(self, what: str, value: float, bound: float, *, at_least: bool, unit: str = "") -> None:
        met = value >= bound if at_least else value <= bound
        word = "at least" if at_least else "at most"
        print(f"  {what}: {value:.3g}{unit} ({word} {bound:g}{unit}): {'met' if met else 'MISSED'}", flush=True)
        if not met:
            self.missed.append(what)


def cpu_of(arguments: list[str]) -> tuple[float, float, bytes]:
    """Run a process. Return its CPU time and real time in seconds, and its output."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    output = subprocess.run(arguments, stdout=subprocess.PIPE, check=True).stdout
    real, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, real, output


def run(targets: Targets, command: str, runs: int, folder: Path) -> None:
    text = ts.Scenario.from_file(TWO_LEVEL).set("length", "60s").text
    path = folder / "two-level.toml"
    path.write_text(text)
    ratios: dict[str, list[float]] = {"CPU time": [], "real time": []}
    for _ in range(runs):
        ours = cpu_of([sys.executable, "-c", RUN, str(path)])
        theirs = cpu_of([command, "sim", str(path), "--json"])
        assert ours[2] == theirs[2], "both print the same report"
        for kind, nth in (("CPU time", 0), ("real time", 1)):
            ratios[kind].append(theirs[nth] / ours[nth])
    print(f"run: {path.name} over 60 s, speed relative to the command, {runs} pairs")
    for kind, found in ratios.items():
        print(f"  {kind}: {statistics.median(found):.3f} ({min(found):.3f} to {max(found):.3f})")
    targets.check("speed of a run, CPU time", statistics.median(ratios["CPU time"]), 0.95, at_least=True)


def export(targets: Targets) -> None:
    rows, took, memory = 0, 0.0, 0.0
    length = 100
    while rows < 10_000_000:
        found = subprocess.run([sys.executable, "-c", EXPORT, f"{length}s"], capture_output=True, text=True, check=True)
        rows, took, memory = (float(word) for word in found.stdout.split())
        length = int(length * max(1.1, 10_500_000 / rows))
    print(f"export: {rows:,.0f} events to pyarrow")
    targets.check("export", took, 1.0, at_least=False, unit=" s")
    targets.check("memory of run and table", memory / 2**30, 1.0, at_least=False, unit=" GiB")


def cells(count: int, **more: Any) -> ts.Sweep:
    """Return a sweep of cells of at least 100 ms each."""
    it = ts.Scenario.from_file(TWO_LEVEL).set("length", CELL_LENGTH)
    return ts.sweep(it, seeds=range(count), metrics={"got": "report.total.delivered_ns"}, progress=False, **more)


def on_cluster(workers: int) -> tuple[float, float]:
    """Return the real time and the CPU time of all processes for the cells on a cluster, in seconds."""
    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:  # type: ignore[no-untyped-call]
        cpu: Callable[[], float] = lambda: time.process_time() + sum(client.run(time.process_time).values())  # noqa: E731
        before, begun = cpu(), time.perf_counter()
        rows = cells(CELLS, executor=client).rows()
        real, after = time.perf_counter() - begun, cpu()
    assert len(rows) == CELLS and all(row["error"] is None for row in rows)
    return real, after - before


def sweep(targets: Targets) -> None:
    # Without a cluster, in this process, on one thread.
    sample = cells(CELLS // 10, workers=1)
    before = time.process_time()
    sample.rows()
    each = (time.process_time() - before) / len(sample)
    print(f"sweep: {CELLS:,} cells of {1e3 * each:.0f} ms")
    targets.check("CPU time of a cell", each, 0.1, at_least=True, unit=" s")
    one, two = on_cluster(1), on_cluster(2)
    print(f"  one worker {one[0]:.1f} s, two workers {two[0]:.1f} s")
    targets.check("speed-up by the second worker", one[0] / two[0], 1.6, at_least=True)
    outside = 100 * (two[1] - CELLS * each) / two[1]
    targets.check("CPU time outside the cells", outside, 5, at_least=False, unit=" %")


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("parts", nargs="*", choices=["run", "export", "sweep", []], help="default: all parts")
    arguments.add_argument("--runs", type=int, default=5, help="number of pairs of runs")
    arguments.add_argument("--command", required=True, help="the command `tactus`, in a release build")
    arguments.add_argument("--folder", type=Path, required=True, help="directory for temporary files")
    asked = arguments.parse_args()
    parts = asked.parts or ["run", "export", "sweep"]
    targets = Targets()
    print(json.dumps({"package": ts.__version__, "python": sys.version.split()[0], "cpus": os.cpu_count()}))
    if "run" in parts:
        run(targets, asked.command, asked.runs, asked.folder)
    if "export" in parts:
        export(targets)
    if "sweep" in parts:
        sweep(targets)
    return 1 if targets.missed else 0


if __name__ == "__main__":
    sys.exit(main())
