"""Sweeps on threads, processes and a Dask cluster, and the experiments of papers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tactus_sched as ts
from distributed import Client, LocalCluster
from tactus_sched import execution, lab

METRICS = {"got": "report.total.delivered_ns", "wait": "tasks.player.wait_max_ns"}


def scenario(root: Path) -> ts.Scenario:
    return ts.Scenario.from_file(root / "scenarios/parallel.toml")


def small(root: Path, **more: Any) -> ts.Sweep:
    vary = {"policy": ["credit", "edf"], "length": ["100ms", "200ms"]}
    return ts.sweep(scenario(root), vary, seeds=range(3), progress=False, **{"metrics": METRICS, **more})


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:  # type: ignore[no-untyped-call]
        yield cluster


def test_rows_do_not_depend_on_the_executor(root: Path, cluster: LocalCluster) -> None:
    alone = small(root, workers=1).rows()
    assert len(alone) == 12
    assert [row["seed"] for row in alone[:3]] == [0, 1, 2]
    assert all(row["error"] is None and row["got"] > 0 for row in alone)
    assert small(root, workers=3).rows() == alone
    with ThreadPoolExecutor(2) as threads:
        assert small(root, executor=threads).rows() == alone
    with ProcessPoolExecutor(2) as processes:
        assert small(root, executor=processes).rows() == alone
    with Client(cluster) as client:  # type: ignore[no-untyped-call]
        assert small(root, executor=client).rows() == alone


def test_a_row_without_metrics_is_the_report(root: Path, cluster: LocalCluster) -> None:
    with Client(cluster) as client:  # type: ignore[no-untyped-call]
        row = small(root, executor=client, metrics=None).rows()[0]
    it = scenario(root).set("policy", "credit").set("length", "100ms")
    assert row["report"] == json.loads(json.dumps(ts.run(it, "credit", seed=0).report))


def test_failed_cells_are_rows(root: Path) -> None:
    vm = {"name": "a", "slice": "5ms", "period": "10ms", "workload": "hog"}
    it = ts.Scenario.from_dict({"name": "x", "cpus": 1, "length": "1s", "policy": "edf", "vm": [vm]})
    sweep = ts.sweep(it, {"vm.a.slice": ["5ms", "10ms"]}, metrics={"got": "report.total.delivered_ns"}, progress=False)
    right, wrong = sweep.rows()
    assert right["error"] is None
    # edf reserves at most 90 % of a CPU.
    assert "10ms every 10ms" in wrong["error"] and "use at most" in wrong["error"]
    assert wrong["got"] is None
    assert sweep.failed == [wrong]
    unknown = ts.sweep(scenario(root), metrics={"x": "tasks.absent.wait"}, progress=False).rows()[0]
    assert "metric `x`" in unknown["error"]


def test_wrong_axes_are_refused_before_the_first_run(root: Path) -> None:
    for vary, knobs, reason in (
        ({"vm.absent.slice": ["1ms"]}, None, "absent"),
        ({"policy": ["edf", "edff"]}, None, "did you mean `edf`"),
        ({"policy": ["edf"]}, {"enforc": "hard"}, "enforc"),
    ):
        with pytest.raises(ts.InputError, match=reason):
            ts.sweep(scenario(root), vary, knobs=knobs)


def test_the_store_tells_apart_what_a_cell_runs(tmp_path: Path) -> None:
    def misses(**more: Any) -> list[int]:
        it = ts.Scenario.from_tasks([(10_000, 6_000)] * 2, **more)
        rows = ts.sweep(it, {"policy": ["edf"]}, metrics={"late": "report.total.misses"}, store=tmp_path, progress=False)
        return [row["late"] for row in rows.rows()]

    assert misses(cpus=1, length="1s")[0] > 0
    assert misses(cpus=2, length="1s") == misses(cpus=2, length="1s", partitioned=True) == [0]
    assert misses(cpus=1, length="2s")[0] > misses(cpus=1, length="1s")[0]
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 4


def test_the_seed_is_that_of_the_scenario_or_of_the_caller(root: Path) -> None:
    it = scenario(root).set("seed", 7).set("length", "100ms")
    assert [row["seed"] for row in ts.sweep(it, metrics=METRICS, progress=False).rows()] == [7]
    assert [row["seed"] for row in ts.sweep(it, seeds=[2**64 - 1], progress=False).rows()] == [2**64 - 1]
    for wrong in ({"seeds": [-1]}, {"seeds": [0.5]}, {"vary": {"seed": [1]}}, {"metrics": {"error": "report.seed"}}):
        with pytest.raises(ts.InputError):
            ts.sweep(it, progress=False, **wrong)  # type: ignore[arg-type]


def test_the_end_of_a_sweep_stops_the_runs_on_threads(root: Path) -> None:
    it = scenario(root).set("length", "3000s")
    with ThreadPoolExecutor(2) as threads:
        begun = iter(ts.sweep(it, {"length": ["10ms", "3000s"]}, metrics=METRICS, executor=threads, progress=False))
        next(begun)
        ended = time.monotonic()
        begun.close()
    assert time.monotonic() - ended < 2


def test_a_sweep_resumes_from_the_store(root: Path, tmp_path: Path) -> None:
    begun = iter(small(root, store=tmp_path))
    first = [next(begun) for _ in range(4)]
    begun.close()
    kept = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert 4 <= len(kept) < 12
    rows = small(root, store=tmp_path).rows()
    assert all(row in rows for row in first)
    assert rows == small(root).rows()
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 12
    began = time.monotonic()
    assert small(root, store=tmp_path).rows() == rows
    assert time.monotonic() - began < 1


def test_cells_of_a_lost_worker_are_played_again(root: Path) -> None:
    it = scenario(root).set("length", "20s")
    alone = ts.sweep(it, {"policy": ["credit", "edf"]}, seeds=range(20), metrics=METRICS, progress=False).rows()
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:  # type: ignore[no-untyped-call]
        with Client(cluster) as client:  # type: ignore[no-untyped-call]
            pids = list(client.run(os.getpid).values())
            rows = ts.sweep(
                it, {"policy": ["credit", "edf"]}, seeds=range(20), metrics=METRICS, executor=client, progress=False
            )
            seen = 0
            for _ in rows:
                seen += 1
                if seen == 4:
                    os.kill(pids[0], signal.SIGKILL)
            assert seen == 40
            assert rows.rows() == alone


def test_a_worker_of_other_sources_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "FINGERPRINT", "0" * 64)
    with ProcessPoolExecutor(1, mp_context=__import__("multiprocessing").get_context("spawn")) as processes:
        with pytest.raises(ts.FingerprintError, match="same wheel"):
            small(root, executor=processes).rows()


def test_policies_in_python_can_be_swept(root: Path) -> None:
    class RoundRobin(ts.Policy):
        name = "turns"

        def start(self, cpus: int) -> None:
            self.queue: list[int] = []

        def wake(self, entity: int, why: str, cx: ts.Context) -> None:
            self.queue.append(entity)
            if (cpu := cx.idle_cpu_for(entity)) is not None:
                cx.kick(cpu)

        def sleep(self, entity: int, cx: ts.Context) -> None:
            self.queue.remove(entity)

        def put(self, cpu: int, entity: int, why: str, cx: ts.Context) -> None:
            if why != "blocked":
                self.queue.append(entity)

        def pick(self, cpu: int, cx: ts.Context) -> tuple[int, int] | None:
            return (self.queue.pop(0), cx.now + 10_000_000) if self.queue else None

    rows = ts.sweep(scenario(root), {"policy": [RoundRobin, "round-robin"]}, metrics=METRICS, progress=False).rows()
    assert [row["policy"] for row in rows] == ["turns", "round-robin"]
    assert rows[0]["got"] == rows[1]["got"]
    made = ts.sweep(scenario(root), {"policy": [lambda: RoundRobin()]}, metrics=METRICS, progress=False).rows()
    assert (made[0]["policy"], made[0]["got"]) == ("turns", rows[0]["got"])


def test_ctrl_c_ends_a_sweep(root: Path) -> None:
    code = (
        "import time, tactus_sched as ts\n"
        f"it = ts.Scenario.from_file({str(root / 'scenarios/parallel.toml')!r}).set('length', '30000s')\n"
        "print('begins', flush=True)\n"
        "try: ts.sweep(it, seeds=range(20), progress=False).rows()\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "begins\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    late = threading.Timer(10, child.kill)
    late.start()
    assert child.stdout.read() == "interrupted\n"
    late.cancel()
    assert child.wait() == 0


def test_the_papers_run_on_a_cluster_as_in_the_command(root: Path, command: str, cluster: LocalCluster, tmp_path: Path) -> None:
    papers, claims = root / "papers", ["D1"]
    with Client(cluster) as client:  # type: ignore[no-untyped-call]
        judged = lab.run(claims, papers=papers, results=tmp_path / "ours", seeds=1, executor=client, progress=False)
    shown = [command, "lab", "run", *claims, "--seeds", "1", "--papers", str(papers), "--json", "--results"]
    alone = subprocess.run([*shown, str(tmp_path / "theirs")], capture_output=True, text=True)
    ours, theirs = (
        sorted((tmp_path / name / "runs.jsonl").read_text().splitlines()) for name in ("ours", "theirs")
    )
    assert ours == theirs
    expected = json.loads(alone.stdout)
    assert [paper["verdicts"] for paper in judged] == [paper["verdicts"] for paper in expected]


def test_the_command_line_of_the_papers(root: Path, tmp_path: Path) -> None:
    arguments = ["run", "D1", "--papers", str(root / "papers"), "--results", str(tmp_path), "--seeds", "1"]
    module = [sys.executable, "-m", "tactus_sched.lab"]
    ran = subprocess.run([*module, *arguments], capture_output=True, text=True, check=True)
    assert "D1" in ran.stdout
    wrong = subprocess.run([*module, "run", "Z9", *arguments[2:]], capture_output=True, text=True)
    assert (wrong.returncode, "no claim `Z9`" in wrong.stderr) == (2, True)
