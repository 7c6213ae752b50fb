"""The notebooks: clean files that run without errors and show what their texts describe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXPECTED: dict[str, dict[str, list[str]]] = {
    "1-first-schedule": {
        "scenario": ["a player and a web server beside a batch job"],
        "run": ["broken laws: []", 'tactus_sched.run(scenario, "edf", seed=0)', "<svg", "missed deadline"],
        "report": ["<table", "delivered_ns", "player"],
        "trace": ["<table", "release", "complete"],
        "jobs": ["<table", "greatest_ms"],
        "comparison": ["<svg", "response time of a job", "cfs"],
    },
    "2-three-xen-schedulers": {
        "comparison": ["<table", "bvt", "sedf", "credit", "Domain-0"],
        "schedules": ["<svg", "bvt on 1 CPU", "sedf on 1 CPU", "credit on 1 CPU"],
        "response-of-web": ["<svg", "response time of a job"],
        "response-of-video": ["<svg", "response time of a job"],
        "parameters": ["<table", "context-allowance = 1ms", "dispatches/s"],
    },
    "3-poris-figure-10-on-dask": {
        "cluster": ["2 CPUs on 2 workers"],
        "figure": ["<svg", "Web search", "hosts of four VMs", "poris"],
        "sweep": ["<table", "response_p99_ns", "eevdf"],
        "pivot": ["<table", "credit"],
    },
    "4-a-policy-of-your-own": {
        "run": ["broken laws: []", "<svg", "stride on 1 CPU"],
        "preemption": ["<svg", "preemptive-stride"],
        "comparison": ["<table", "preemptive-stride", "cfs", "credit"],
        "law": ["was picked but is Blocked", "tactus_sched.run(scenario, forgetful, seed=0)"],
        "task-sets": ["<table", "rate-monotonic (%)", "100.0"],
    },
}
"""Texts in the outputs of cells, by notebook and by the id of the cell."""


def shown(cell: Any) -> str:
    """Return all outputs of a cell as text."""
    texts = []
    for output in cell.outputs:
        texts.append(output.get("text", ""))
        texts.extend(str(value) for value in output.get("data", {}).values())
    return "\n".join(texts)


def folder(root: Path) -> Path:
    return root / "crates/python/notebooks"


def executed(root: Path, name: str, where: Path) -> dict[str, str]:
    """Execute a notebook in the directory ``where`` and return the outputs of its code cells by their ids."""
    notebook = nbformat.read(folder(root) / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(where)}})
    # A kernel of another Python would not have the package under test.
    assert client.create_kernel_manager().format_kernel_cmd()[0] == sys.executable
    client.execute()
    return {cell.id: shown(cell) for cell in notebook.cells if cell.cell_type == "code"}


def missing(name: str, outputs: dict[str, str]) -> list[str]:
    """Return the expected texts that the outputs do not contain."""
    return [
        f"{cell}: {text}"
        for cell, texts in EXPECTED[name].items()
        for text in texts
        if text not in outputs.get(cell, "")
    ]


def test_every_notebook_has_expected_outputs(root: Path) -> None:
    assert sorted(path.stem for path in folder(root).glob("*.ipynb")) == sorted(EXPECTED)
    assert missing("1-first-schedule", {"run": "<svg"}) != []


@pytest.mark.parametrize("name", EXPECTED)
def test_notebooks_are_stored_without_outputs(root: Path, name: str) -> None:
    notebook = nbformat.read(folder(root) / f"{name}.ipynb", as_version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    ids = [cell.id for cell in notebook.cells]
    assert len(ids) == len(set(ids))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert 'smoke = "TACTUS_SMOKE" in os.environ' in code[0].source


@pytest.mark.parametrize("name", EXPECTED)
def test_notebooks_show_what_they_describe(
    root: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACTUS_SMOKE", "1")
    monkeypatch.delenv("TACTUS_PAPERS", raising=False)
    # Only the notebook on the papers depends on its place: it finds the directory of the papers above its own.
    where = folder(root) if name.startswith("3") else tmp_path
    assert missing(name, executed(root, name, where)) == []
    assert list(tmp_path.iterdir()) == []


def test_the_papers_may_be_in_another_directory(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(folder(root) / "3-poris-figure-10-on-dask.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    setup = next(cell.source for cell in notebook.cells if cell.id == "setup")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TACTUS_PAPERS", str(root / "papers"))
    found: dict[str, Any] = {}
    exec(setup, found)
    assert found["papers"] == str(root / "papers")
