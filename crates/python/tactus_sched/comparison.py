"""Runs of one scenario under several policies."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _native
from ._native import Result
from .errors import InputError
from .pictures import Svg


LEAST_WIDTH = 300
"""Least width of a schedule in a comparison, in pixels."""


def distribution(result: Result, measure: str = "wait", entities: Sequence[str] | None = None) -> Svg:
    """Draw the distribution of waits or response times in one run, a curve per entity. Repeats the run.

    ``measure`` is ``"wait"``, the time that an entity waits for a CPU, or ``"response"``, the time from the release of
    a job to its completion. ``entities`` are entities of the first host, by default all with samples.
    """
    samples = result._samples(measure)
    chosen = list(samples) if entities is None else list(entities)
    for name in chosen:
        _check_entity(name, samples)
    curves = [(name, samples[name]) for name in chosen]
    return Svg(_native.distribution_svg(result.scenario.title, result.policy, measure, curves))


def _check_entity(name: str, samples: Mapping[str, Sequence[float]]) -> None:
    """Raise :class:`InputError` if the entity ``name`` has no samples."""
    if not samples.get(name):
        known = ", ".join(sorted(samples)) or "a run with samples"
        raise InputError([("", f"the entity `{name}` has no samples", f"use one of {known}")])


class Comparison(Sequence[Result]):
    """The results of several runs, in the order of their policies. A notebook draws their schedules."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.results = list(results)

    def __getitem__(self, nth: Any) -> Any:
        return self.results[nth]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def json(self) -> str:
        """Return the reports as JSON, byte for byte as ``tactus sim --policy A,B --json`` prints them."""
        return _native.comparison_json(self.results)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """The report of each run (``docs/report.md``)."""
        reports: list[dict[str, Any]] = json.loads(self.json())["runs"]
        return reports

    def svg(self, from_ns: int = 0, to_ns: int | None = None, width: int = 1100) -> Svg:
        """Draw the schedules side by side, by default their first tenth. ``width`` is the width of all, in pixels."""
        each = max(LEAST_WIDTH, width // max(1, len(self.results)))
        return Svg(_native.comparison_svg(self.results, from_ns, to_ns, each))

    def distribution(self, measure: str = "wait", entity: str | None = None) -> Svg:
        """Draw the distribution of waits (``"wait"``) or response times of jobs (``"response"``), a curve per policy.

        ``entity`` is an entity of the first host; by default, the samples of all entities count. Repeats the runs.
        """
        curves = []
        for result in self.results:
            samples = result._samples(measure)
            if entity is not None:
                _check_entity(entity, samples)
            chosen = samples.get(entity, []) if entity is not None else sum(samples.values(), [])
            curves.append((result.policy, chosen))
        title = self.results[0].scenario.title if self.results else ""
        about = "all entities" if entity is None else entity
        return Svg(_native.distribution_svg(title, about, measure, [curve for curve in curves if curve[1]]))

    def __str__(self) -> str:
        return _native.comparison_table(self.results)

    def __repr__(self) -> str:
        return f"<Comparison: {', '.join(result.policy for result in self.results)}>"

    def _repr_html_(self) -> str:
        return f"{self.svg()}<pre>{html.escape(str(self))}</pre>"
