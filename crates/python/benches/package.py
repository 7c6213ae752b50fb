"""The speed of the package, beside the command and beside one worker. `cargo xtask bench` runs this program.

- `run`: a process that imports the package, runs a scenario and prints its report, compared with `tactus sim --json`.
  Both print the same bytes. The runs alternate.
- `export`: from a finished run with ten million events, a pyarrow table of its trace, and the memory of the process.
- `sweep`: 2,000 cells on a Dask cluster of two workers, compared with one worker, in alternating blocks. CPU time outside
  the cells is the time of client, scheduler and workers minus the time of the cells.

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
from pathlib import Path
from typing import Any, NamedTuple

# The settings of docs/python.md: Dask measures its own processes less often. Dask reads them when it is imported.
os.environ.update(
    DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED="False",
    DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL="1s",
    DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL="5s",
)

import tactus_sched as ts
from distributed import Client, LocalCluster
from tactus_sched import sweeps
from tactus_sched.sweeps import play

ROOT = Path(__file__).parents[3]
TWO_LEVEL = ROOT / "scenarios/bench-two-level.toml"
RUN = "import sys, tactus_sched as ts; sys.stdout.write(ts.run(ts.Scenario.from_file(sys.argv[1])).json())"
EXPORT = """
import resource, sys, time
import pyarrow as pa, tactus_sched as ts
tasks = [{"name": f"task{nth}", "workload": {"periodic": {"period": "1ms", "work": "90us"}}} for nth in range(8)]
it = ts.Scenario.from_dict({"name": "export", "cpus": 1, "length": sys.argv[1], "task": tasks})
result = ts.run(it, "cfs", trace=True)
pa.table({"x": [1]})  # pyarrow imports pandas at its first table
begun = time.perf_counter()
table = pa.table(result.trace)
took = time.perf_counter() - begun
print(table.num_rows, took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
CELLS = 2_000
CELL_LENGTH = "170ms"


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


class Timed(NamedTuple):
    """A process that has ended."""

    cpu: float
    """CPU time in seconds."""
    real: float
    """Real time in seconds."""
    output: bytes


def timed(arguments: list[str]) -> Timed:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    output = subprocess.run(arguments, stdout=subprocess.PIPE, check=True).stdout
    real, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Timed(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, real, output)


def run(targets: Targets, command: str, runs: int, folder: Path) -> None:
    text = ts.Scenario.from_file(TWO_LEVEL).set("length", "8s").text
    path = folder / "two-level.toml"
    path.write_text(text)
    ratios: dict[str, list[float]] = {"CPU time": [], "real time": []}
    for _ in range(runs):
        ours = timed([sys.executable, "-c", RUN, str(path)])
        theirs = timed([command, "sim", str(path), "--json"])
        assert ours.output == theirs.output, "both print the same report"
        ratios["CPU time"].append(theirs.cpu / ours.cpu)
        ratios["real time"].append(theirs.real / ours.real)
    print(f"run: {path.name} over 8 s, speed relative to the command, {runs} pairs")
    for kind, found in ratios.items():
        print(f"  {kind}: {statistics.median(found):.3f} ({min(found):.3f} to {max(found):.3f})")
    targets.check("speed of a run, CPU time", statistics.median(ratios["CPU time"]), 0.95, at_least=True)


def export(targets: Targets) -> None:
    rows, took, memory = 0.0, 0.0, 0.0
    length = 100
    while rows < 10_000_000:
        found = subprocess.run([sys.executable, "-c", EXPORT, f"{length}s"], capture_output=True, text=True, check=True)
        rows, took, memory = (float(word) for word in found.stdout.split())
        length = int(length * max(1.1, 10_500_000 / rows))
    print(f"export: {rows:,.0f} events to pyarrow")
    targets.check("export", took, 1.0, at_least=False, unit=" s")
    targets.check("memory of run and table", memory / 2**30, 1.0, at_least=False, unit=" GiB")


def timed_play(cell: Any, goes_on: Any = None) -> str:
    """Run a cell. Its measurements contain its CPU time in seconds."""
    begun = time.thread_time()
    measured = json.loads(play(cell, goes_on))
    return json.dumps({**measured, "cpu": time.thread_time() - begun})


class Cluster:
    """A Dask cluster on this machine, with the times of the sweeps on it in seconds."""

    def __init__(self, workers: int) -> None:
        options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        self.cluster = LocalCluster(**options)  # type: ignore[no-untyped-call]
        self.client = Client(self.cluster)  # type: ignore[no-untyped-call]
        self.real: list[float] = []
        self.cpu = 0.0
        self.cpu_of_cells = 0.0

    def _used(self) -> float:
        """Return the CPU time of client, scheduler and workers."""
        of_workers: dict[str, float] = self.client.run(time.process_time)
        return time.process_time() + sum(of_workers.values())

    def sweep(self, seeds: range) -> None:
        """Run a cell of at least 100 ms for each seed."""
        it = ts.Scenario.from_file(TWO_LEVEL).set("length", CELL_LENGTH)
        metrics = {"got": "report.total.delivered_ns"}
        used, begun = self._used(), time.perf_counter()
        rows = ts.sweep(it, seeds=seeds, metrics=metrics, executor=self.client, progress=False).rows()
        self.real.append(time.perf_counter() - begun)
        self.cpu += self._used() - used
        assert all(row["error"] is None for row in rows)
        self.cpu_of_cells += sum(row["cpu"] for row in rows)

    def close(self) -> None:
        self.client.close()  # type: ignore[no-untyped-call]
        self.cluster.close()


def sweep(targets: Targets) -> None:
    sweeps.play = timed_play
    one, two = Cluster(1), Cluster(2)
    # The speed of a machine changes within minutes, so the clusters work in turns.
    blocks = 10
    for block in range(blocks):
        seeds = range(block * CELLS // blocks, (block + 1) * CELLS // blocks)
        one.sweep(seeds)
        two.sweep(seeds)
    for cluster in (one, two):
        cluster.close()
    each = 1e3 * (one.cpu_of_cells + two.cpu_of_cells) / (2 * CELLS)
    print(f"sweep: {CELLS:,} cells of {each:.0f} ms on each cluster, in {blocks} blocks")
    targets.check("CPU time of a cell", each, 100, at_least=True, unit=" ms")
    ratios = [left / right for left, right in zip(one.real, two.real, strict=True)]
    print(f"  one worker {sum(one.real):.1f} s, two workers {sum(two.real):.1f} s ({min(ratios):.2f} to {max(ratios):.2f})")
    targets.check("speed-up by the second worker", sum(one.real) / sum(two.real), 1.6, at_least=True)
    outside = 100 * (two.cpu - two.cpu_of_cells) / two.cpu
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
