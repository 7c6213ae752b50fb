"""Tables: events, jobs and context switches, without copying, for polars, pyarrow and pandas."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
import tactus_sched as ts


def scenario(root: Path) -> ts.Scenario:
    return ts.Scenario.from_file(root / "scenarios/parallel.toml")


def test_every_arrow_library_reads_the_events(root: Path) -> None:
    result = ts.run(scenario(root), "edf", trace=True)
    table = pa.table(result.trace)
    assert table.column_names == ["time_ns", "machine", "event", "cpu", "entity", "value"]
    assert isinstance(result.trace, ts.ArrowTable)
    assert pa.types.is_dictionary(table.schema.field("event").type)
    frame = pl.DataFrame(result.trace)
    assert frame.shape == table.shape
    assert frame["event"].to_list() == table.to_pandas()["event"].tolist()
    # Both libraries see the same memory.
    assert pa.table(result.trace)["time_ns"].chunk(0).buffers()[1].address == table["time_ns"].chunk(0).buffers()[1].address


def test_pandas_reads_names_that_several_entities_have(root: Path) -> None:
    it = ts.Scenario.from_file(root / "scenarios/coordination.toml").set("length", "200ms")
    frame = pa.table(ts.run(it, trace=True).trace).to_pandas()
    assert frame["entity"].cat.categories.is_unique and len(frame["machine"].cat.categories) > 1


def test_events_add_up_to_the_report(root: Path) -> None:
    it = scenario(root)
    result = ts.run(it, "edf", trace=True)
    events = pl.DataFrame(result.trace).with_columns(pl.col("entity").cast(pl.String), pl.col("event").cast(pl.String))
    since: dict[int, tuple[str, int]] = {}
    ran: dict[str, int] = {}
    for row in events.filter(pl.col("event").is_in(["run", "stop"])).iter_rows(named=True):
        entity, start = since.pop(row["cpu"], (None, 0))
        if entity is not None:
            ran[entity] = ran.get(entity, 0) + row["time_ns"] - start
        if row["event"] == "run":
            since[row["cpu"]] = (row["entity"], row["time_ns"])
    for entity, start in since.values():
        ran[entity] = ran.get(entity, 0) + it.length_ns - start
    assert ran == {entity["name"]: entity["delivered_ns"] for entity in result.report["entities"]}


def test_jobs_are_those_of_the_report(root: Path) -> None:
    result = ts.run(scenario(root), "edf", jobs=True)
    jobs = pa.table(result.jobs).to_pylist()
    assert len(jobs) == len(result.report["jobs"]) == 50
    for row, job in zip(jobs, result.report["jobs"], strict=True):
        assert {key: row[key] for key in job} == job
        assert row["release_ns"] <= row["start_ns"] < row["completion_ns"]
        assert row["response_ns"] == row["completion_ns"] - row["release_ns"]


def test_lisa_opens_a_written_trace_with_the_same_frames(root: Path, tmp_path: Path) -> None:
    python = os.environ.get("TACTUS_LISA_PYTHON")
    if python is None:
        pytest.skip("TACTUS_LISA_PYTHON does not name a Python with LISA")
    # LISA's pattern for a priority has no sign, so no task has a reservation.
    tasks = [{"name": f"hog{nth}", "nice": nth, "workload": "hog"} for nth in range(4)]
    tasks.append({"name": "player", "workload": {"periodic": {"period": "20ms", "work": "3ms"}}})
    it = ts.Scenario.from_dict({"name": "x", "cpus": 2, "length": "1s", "policy": "eevdf", "task": tasks})
    result = ts.run(it, switches=True)
    result.write_ftrace(tmp_path / "trace.txt")
    script = Path(__file__).parent / "lisa_frames.py"
    subprocess.run([python, script, tmp_path / "trace.txt", tmp_path], check=True)
    for event, ours in (("sched_switch", result.sched_switch), ("sched_wakeup", result.sched_wakeup)):
        mine, theirs = pl.DataFrame(ours), pl.read_json(tmp_path / f"{event}.json")
        assert set(mine.columns) == set(theirs.columns)
        assert mine.height == theirs.height >= 50
        for column in mine.columns:
            left, right = mine[column].to_list(), theirs[column].to_list()
            if column == "prev_state":
                # From text, LISA 3.1.0 sets the bits of its unreportable states in every number. The bits of a sleeping
                # and of a dead task are right.
                left, right = [state & 0x1F for state in left], [state & 0x1F for state in right]
            assert left == (pytest.approx(right) if column == "Time" else right), column


GOLDEN = {"parallel": "60ms", "three-vms": "300ms", "weights": "200ms"}
"""The scenarios of the golden traces and the lengths of the traces (crates/conformance/tests/policies/golden.rs)."""


@pytest.mark.parametrize("name", GOLDEN)
def test_traces_are_the_golden_traces(root: Path, tmp_path: Path, name: str) -> None:
    it = ts.Scenario.from_file(root / f"scenarios/{name}.toml").set("length", GOLDEN[name])
    for policy in ts.policies():
        ts.run(it, policy["name"]).write_trace(tmp_path / "trace.txt")
        expected = (root / f"golden/{name}.{policy['name']}.trace").read_bytes()
        assert (tmp_path / "trace.txt").read_bytes() == expected, policy["name"]


def test_a_trace_has_the_format_of_its_name(root: Path, tmp_path: Path) -> None:
    result = ts.run(scenario(root), "edf")
    result.write_trace(tmp_path / "trace.json")
    result.write_trace(tmp_path / "trace.pftrace")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    with pytest.raises(ts.InputError, match="does not name a format"):
        result.write_trace(tmp_path / "trace.perfetto")
    with pytest.raises(OSError):
        result.write_trace(tmp_path / "absent" / "trace.txt")
    assert not (tmp_path / "trace.perfetto").exists()


def test_a_distribution_counts_every_wait(root: Path) -> None:
    hogs = [{"name": f"hog{nth}", "workload": "hog"} for nth in range(2)]
    it = ts.Scenario.from_dict({"name": "x", "cpus": 1, "length": "1s", "task": hogs})
    result = ts.run(it, "round-robin")
    samples = result._samples("wait")
    for entity in result.report["entities"]:
        waits = samples[entity["name"]]
        # A wait that begins at the end of the run has no length.
        assert abs(len(waits) - entity["waits"]) <= 1
        assert max(waits) == entity["wait_max_ns"] / 1e6 == 10
    # The first hog runs at once: a wait of length 0.
    assert min(samples["hog0"]) == 0
    picture = ts.distribution(result, "wait")
    assert isinstance(picture, ts.Svg) and picture.startswith("<svg") and "hog1" in picture
    with pytest.raises(ts.InputError, match="no distribution of `sleep`"):
        ts.distribution(result, "sleep")
