"""Runs of one scenario under several policies."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from typing import Any

from . import _native
from ._native import Result


class Svg(str):
    """An SVG document, which a notebook draws."""

    def _repr_svg_(self) -> str:
        return str(self)


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
        """Draw the schedules one below the other, by default their first tenth."""
        return Svg(_native.comparison_svg(self.results, from_ns, to_ns, width))

    def __str__(self) -> str:
        return _native.comparison_table(self.results)

    def __repr__(self) -> str:
        return f"<Comparison: {', '.join(result.policy for result in self.results)}>"

    def _repr_html_(self) -> str:
        return f"{self.svg()}<pre>{html.escape(str(self))}</pre>"
