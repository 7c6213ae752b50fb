"""Sweeps: a scenario with every combination of values and seeds."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any, NamedTuple

from . import _native
from ._native import Scenario, Store
from .errors import InputError
from .execution import Executor, played
from .knobs import seed_of, settings_for
from .policy import name_of
from .progress import bar

Row = dict[str, Any]
"""A cell of a sweep: its axes, ``seed``, its metrics or ``report``, and ``error``."""


class Cell(NamedTuple):
    """One run of a sweep. A pickled scenario is its text, with the files that it names."""

    point: dict[str, Any]
    seed: int
    scenario: Scenario
    policy: Any
    knobs: list[str]
    metrics: dict[str, str] | None

    @property
    def inputs(self) -> str | None:
        """All inputs that determine the outcome, apart from the sources. ``None``: a policy in Python decides."""
        if self.policy is not None and not isinstance(self.policy, str):
            return None
        # The arguments that make the scenario: its text, and for a task set its CPUs and its length.
        made = [_text(argument) for argument in self.scenario.__reduce__()[1]]
        return "sweep\n" + json.dumps([made, self.policy, self.knobs, self.seed, self.metrics], sort_keys=True)


def _text(argument: Any) -> Any:
    """Return ``argument`` with the contents of files as text."""
    if isinstance(argument, dict):
        return {name: content.hex() for name, content in sorted(argument.items())}
    return argument


def play(cell: Cell, goes_on: Callable[[int, int], bool] | None = None) -> str:
    """Run ``cell`` and return its measurements as JSON."""
    result = _native.run(cell.scenario, cell.policy, knobs=cell.knobs, seed=cell.seed, progress=goes_on)
    if cell.metrics is not None:
        return result._metrics(cell.metrics)
    return json.dumps({"report": result.report}, separators=(",", ":"))


class Sweep:
    """The cells of a sweep. Iterating yields their rows as they end; :meth:`rows` returns all rows in order.

    A row is a dict with the value of each axis, ``seed``, the metrics (or ``report``), and ``error``. ``error`` is
    ``None`` for a cell that succeeded. The measurements of a cell that failed are ``None``. ``pandas.DataFrame(rows)`` and
    ``polars.DataFrame(rows, infer_schema_length=None)`` accept a list of rows.
    """

    def __init__(
        self,
        cells: list[Cell],
        executor: Executor | None,
        store: str | PathLike[str] | None,
        workers: int | None,
        progress: bool,
    ) -> None:
        self.cells = cells
        self._executor = executor
        self._store = None if store is None else Store(store)
        self._workers = workers
        self._progress = progress
        self._rows: dict[int, Row] = {}

    def __len__(self) -> int:
        return len(self.cells)

    def _row(self, nth: int, measured: str | None, error: str | None) -> Row:
        cell = self.cells[nth]
        names = ["report"] if cell.metrics is None else list(cell.metrics)
        values = dict.fromkeys(names) if measured is None else json.loads(measured)
        return {**cell.point, "seed": cell.seed, **values, "error": error}

    def _known(self) -> Iterator[tuple[int, Row]]:
        if self._store is None:
            return
        for nth, cell in enumerate(self.cells):
            inputs = None if nth in self._rows else cell.inputs
            measured = None if inputs is None else self._store.get(inputs)
            if measured is not None:
                yield nth, self._row(nth, measured, None)

    def __iter__(self) -> Iterator[Row]:
        for nth, row in self._known():
            self._rows[nth] = row
        yield from list(self._rows.values())
        open_cells = [nth for nth in range(len(self.cells)) if nth not in self._rows]
        with bar(len(self.cells), len(self._rows), shown=self._progress) as ended:
            outcomes = played(play, [self.cells[nth] for nth in open_cells], self._executor, workers=self._workers)
            for done in outcomes:
                nth = open_cells[done.nth]
                inputs = None if self._store is None or done.value is None else self.cells[nth].inputs
                if self._store is not None and inputs is not None:
                    self._store.put(inputs, done.value)
                self._rows[nth] = self._row(nth, done.value, done.error)
                ended.update()
                yield self._rows[nth]

    def rows(self) -> list[Row]:
        """Run the cells that have not ended, and return the rows in the order of the axes, then of the seeds."""
        for _ in self:
            pass
        return [self._rows[nth] for nth in range(len(self.cells))]

    @property
    def failed(self) -> list[Row]:
        """The rows of the cells that have failed so far."""
        return [row for row in self._rows.values() if row["error"] is not None]


def _check_names(axes: Mapping[str, Any], metrics: Mapping[str, str]) -> None:
    """Raise :class:`InputError` if two columns of a row would have one name."""
    taken = [name for name in ("seed", "error", "report") if name in axes or name in metrics]
    taken += [name for name in metrics if name in axes]
    if "seed" in axes:
        raise InputError([("", "`seed` is not an axis", "use seeds=…")])
    if taken:
        raise InputError([("", f"`{taken[0]}` names another column of the rows", "use another name")])


def sweep(
    scenario: Scenario,
    vary: Mapping[str, Iterable[Any]] | None = None,
    *,
    seeds: Iterable[int] | None = None,
    metrics: Mapping[str, str] | None = None,
    knobs: Mapping[str, str | int | bool] | None = None,
    executor: Executor | None = None,
    store: str | PathLike[str] | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Sweep:
    """Run ``scenario`` with every combination of the values in ``vary`` and ``seeds``.

    An axis of ``vary`` is ``"policy"`` or the path of a key, as in ``tactus sim --vary``: ``"vm.web.slice"``. Values are
    texts, numbers and booleans; for ``"policy"``, also classes derived from :class:`tactus_sched.Policy`.

    ``seeds`` are whole numbers from 0 to 2**64 - 1, by default the seed of the scenario.

    ``metrics`` are expressions over the report of a run, in the language of experiments (``docs/experiments.md``):
    ``{"late": "tasks.player.misses"}``. Without metrics, each row has the whole report.

    ``executor`` is any executor of :mod:`concurrent.futures`, or a :class:`dask.distributed.Client`; by default, the
    cells run on ``workers`` threads. Results do not depend on the executor. Dask plays the cells of a lost worker again.

    ``store`` is a directory of finished runs, such as that of ``tactus lab run --results``: cells in the store are not
    run again, so an interrupted sweep resumes.

    Raises :class:`InputError` if a value of an axis, a policy or a knob is invalid. A cell that fails later, such as a
    reservation that the policy refuses, becomes a row with an ``error``.
    Raises :class:`FingerprintError` if a worker was built from other sources.
    """
    axes = {axis: list(values) for axis, values in (vary or {}).items()}
    _check_names(axes, metrics or {})
    chosen = [scenario.seed or 0] if seeds is None else [seed_of(seed) for seed in seeds]
    cells = []
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        policy, varied = point.get("policy"), scenario
        for axis, value in point.items():
            if axis != "policy":
                varied = varied.set(axis, value)
        shown = {**point, "policy": name_of(policy)} if "policy" in point else point
        settings = settings_for(policy, knobs, axes.get("policy", ()))
        _native.check(varied, policy, settings)
        for seed in chosen:
            cells.append(
                Cell(shown, seed, varied, policy, settings, None if metrics is None else dict(metrics))
            )
    return Sweep(cells, executor, store, workers, progress)
