"""The manual page docs/python.md: its code runs, and its tables are complete."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
import tactus_sched as ts

ADDRESS = "127.0.0.1:8786"
"""Address of the Dask scheduler in the page. The tests use a free port instead."""


class Block(NamedTuple):
    """A fenced block of code."""

    heading: str
    line: int
    """Number of its first line in the page."""
    language: str
    code: str


def blocks(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    found: list[Block] = []
    heading, inside = "", False
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
            if inside:
                found.append(Block(heading, number + 1, line.removeprefix("```"), ""))
        elif inside:
            found[-1] = found[-1]._replace(code=f"{found[-1].code}{line}\n")
        elif line.startswith("#"):
            heading = line.lstrip("# ")
    return found


def documented(page: str, heading: str) -> set[str]:
    """Return the words in code spans of the first column of the tables below a heading."""
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)", row.split("|")[1])}


def can_run(block: Block) -> bool:
    """Return whether the block needs neither Slurm nor a package that is not installed."""
    has_jobqueue = importlib.util.find_spec("dask_jobqueue") is not None
    return "cluster.scale(" not in block.code and (has_jobqueue or "dask_jobqueue" not in block.code)


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs/python.md").read_text()


@pytest.fixture(scope="module")
def cluster(page: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster, started by the two commands of the page on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shell = next(block.code for block in blocks(page) if "dask scheduler" in block.code)
    scheduler, worker = shell.replace(ADDRESS, f"127.0.0.1:{port}").splitlines()
    commands = [[*shlex.split(scheduler), "--port", str(port), "--dashboard-address", ":0"], shlex.split(worker)]
    where = tmp_path_factory.mktemp("cluster")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            log = (where / f"{command[1]}.log").open("wb")
            begun = subprocess.Popen(command, cwd=where, env={**os.environ, "PATH": path}, stdout=log, stderr=log)
            log.close()
            started.append(begun)
        yield f"127.0.0.1:{port}"
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


@pytest.fixture(scope="module")
def service(
    serving: Callable[[Path], AbstractContextManager[ts.Service]],
    vm_named: Callable[[str], AbstractContextManager[int]],
    soon: Callable[[str, Callable[[], bool]], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The socket of a service that knows the VM of the page."""
    with serving(tmp_path_factory.mktemp("service")) as service, vm_named("vm1"):
        soon("the VM is found", lambda: any(vm["name"] == "vm1" for vm in service.vms()))
        yield str(service.socket)


@pytest.fixture(scope="module")
def printed(
    root: Path, page: str, cluster: str, service: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The output of each section, whose blocks run in order in one namespace and in a temporary directory."""
    where = tmp_path_factory.mktemp("page")
    for folder in ("scenarios", "papers"):
        (where / folder).symlink_to(root / folder)
    before = Path.cwd()
    namespace: dict[str, Any] = {"__name__": "page"}
    output: dict[str, str] = {"": str(where)}
    os.chdir(where)
    os.environ["TACTUS_SOCKET"] = service
    try:
        for block in blocks(page):
            if block.language != "python":
                continue
            # Empty lines before the code give the lines of the page in a traceback.
            code = compile("\n" * (block.line - 1) + block.code.replace(ADDRESS, cluster), "docs/python.md", "exec")
            if not can_run(block):
                continue
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                exec(code, namespace)
            output[block.heading] = output.get(block.heading, "") + text.getvalue()
        yield output
    finally:
        for name in ("client", "cluster"):
            if name in namespace:
                namespace[name].close()
        os.chdir(before)
        del os.environ["TACTUS_SOCKET"]


def test_blocks_have_their_headings_and_lines() -> None:
    text = "# A\n\n```sh\nls\n```\n## B\n```python\n# no heading\nx = 1\n```\n```python\ny\n```\n"
    assert blocks(text) == [
        Block("A", 4, "sh", "ls\n"),
        Block("B", 8, "python", "# no heading\nx = 1\n"),
        Block("B", 12, "python", "y\n"),
    ]


def test_the_first_ten_lines_draw_three_schedulers(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = next(block for block in blocks(page) if block.language == "python")
    assert first.heading == "Three schedulers in ten lines"
    assert len(first.code.splitlines()) == 10
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    exec(first.code, namespace)
    late = {report["policy"]: report["total"]["misses"] for report in namespace["comparison"].reports}
    assert list(late) == ["credit", "cfs", "edf"]
    # The picture shows a difference: only `edf` meets all deadlines.
    assert late["edf"] == 0 < min(late["credit"], late["cfs"])
    drawn = (tmp_path / "schedules.svg").read_text()
    assert all(f"{policy} on 1 CPU" in drawn for policy in late)
    assert "player" in capsys.readouterr().out


@pytest.mark.parametrize("file", ["README.md", "crates/python/README.md"])
def test_the_ten_lines_are_the_same_everywhere(root: Path, page: str, file: str) -> None:
    block = page.split("```python\n")[1].split("```")[0]
    assert block in (root / file).read_text()


@pytest.mark.parametrize(
    ("heading", "texts"),
    [
        ("Runs", ["stopped at ", "batch-a"]),
        ("Results and tables", ["prev_comm", "shape: (3, 3)"]),
        ("Policies in Python", ["turns", "round-robin"]),
        ("Sweeps", ["vm.batch-a.vcpus", "shape: (6, 3)"]),
        ("Papers on a cluster", ["D1", "partly", "poris/fig-2"]),
        ("Task sets", ["0\n" * 10]),
        ("The service", ["waiting 2000000", "422 the slice of 20ms exceeds", "changed"]),
        ("Exceptions", ["`edff`", "help:"]),
    ],
)
def test_the_blocks_of_the_page_run(printed: dict[str, str], heading: str, texts: list[str]) -> None:
    assert [text for text in texts if text not in printed[heading]] == [], printed[heading]


def test_the_page_writes_its_files(printed: dict[str, str]) -> None:
    where = Path(printed[""])
    for name in ("schedule", "schedules", "waits", "responses"):
        assert "<svg" in (where / f"{name}.svg").read_text()
    assert "sched_switch" in (where / "ftrace.txt").read_text()
    assert len((where / "results/runs.jsonl").read_text().splitlines()) == 30


def test_a_job_of_slurm_starts_the_workers(printed: dict[str, str]) -> None:
    pytest.importorskip("dask_jobqueue")
    script = printed["Slurm"]
    assert script.startswith("#!")
    assert "#SBATCH -p compute\n" in script
    assert "#SBATCH --cpus-per-task=32\n" in script
    assert "#SBATCH -t 04:00:00\n" in script
    worker = script.strip().splitlines()[-1]
    assert all(option in worker for option in ("dask_worker tcp://", "--nworkers 32 ", "--nthreads 1 "))


def test_the_page_documents_all_columns(root: Path, page: str) -> None:
    it = ts.Scenario.from_file(root / "scenarios/parallel.toml")
    result = ts.run(it, trace=True, jobs=True, switches=True)
    tables = (result.trace, result.jobs, result.sched_switch, result.sched_wakeup)
    columns = {name for table in tables for name in pa.table(table).column_names}
    assert documented(page, "Results and tables") == columns


def test_the_page_documents_all_exceptions_and_generators(page: str) -> None:
    exceptions = {name for name in ts.__all__ if isinstance(getattr(ts, name), type)}
    exceptions = {name for name in exceptions if issubclass(getattr(ts, name), Exception)}
    # The base class is in the text, and a policy raises the exception `Refused` for the machine.
    assert documented(page, "Exceptions") == exceptions - {"TactusError", "Refused"}
    functions = {name for name in ts.tasksets.__all__ if name.islower()}
    assert documented(page, "Task sets") == functions
