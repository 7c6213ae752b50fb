"""Work on an executor: threads, processes or a Dask cluster."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import Any, NamedTuple

from ._native import FINGERPRINT
from .errors import FingerprintError

Executor = Any
"""An executor of :mod:`concurrent.futures`, or a :class:`dask.distributed.Client`."""

BATCHES_PER_WORKER = 16
"""Least number of batches per worker, so that all workers finish at about the same time."""
BATCH_MOST = 16
"""Greatest number of cells in a batch for a process or a cluster."""


class Done(NamedTuple):
    """The outcome of a cell: its value, or the text of the exception that ended it."""

    nth: int
    value: Any
    error: str | None


def play_batch(
    play: Callable[..., Any], batch: Sequence[tuple[int, Any]], fingerprint: str, ended: Event | None = None
) -> list[Done]:
    """Call ``play`` for each cell of ``batch``. Runs on a worker. ``ended`` stops the runs of a thread."""
    if fingerprint != FINGERPRINT:
        raise FingerprintError(
            f"this worker was built from the sources {FINGERPRINT[:12]}, but the sweep needs {fingerprint[:12]}; "
            "install the same wheel on all workers"
        )
    goes_on = None if ended is None else (lambda _now, _end: not ended.is_set())
    return [_done(play, nth, cell, goes_on) for nth, cell in batch]


def _done(play: Callable[..., Any], nth: int, cell: Any, goes_on: Callable[[int, int], bool] | None) -> Done:
    try:
        return Done(nth, play(cell) if goes_on is None else play(cell, goes_on), None)
    except Exception as error:
        return Done(nth, None, described(error))


def described(error: BaseException) -> str:
    """Return the exception and its cause as text."""
    cause = f": {described(error.__cause__)}" if error.__cause__ is not None else ""
    return f"{type(error).__name__}: {error}{cause}"


def is_dask(executor: Executor) -> bool:
    """Return whether ``executor`` is a client of a Dask cluster."""
    return hasattr(executor, "scheduler_info") and hasattr(executor, "gather")


def played(
    play: Callable[..., Any],
    cells: Sequence[Any],
    executor: Executor | None,
    *,
    workers: int | None = None,
    batch: int | None = None,
) -> Iterator[Done]:
    """Yield the outcome of ``play(cell)`` for all ``cells``, in the order in which they end.

    Without an executor, the cells are played on threads of this process. An interruption, or the end of the iteration,
    cancels the cells that have not begun, and stops the runs on threads of this process. A batch that has begun in
    another process runs to its end.
    """
    numbered = list(enumerate(cells))
    if executor is None:
        yield from _on_threads(play, numbered, workers or os.cpu_count() or 1)
    elif is_dask(executor):
        yield from _on_dask(play, numbered, executor, batch)
    else:
        yield from _on_futures(play, numbered, executor, batch)


def _on_threads(play: Callable[..., Any], cells: list[tuple[int, Any]], workers: int) -> Iterator[Done]:
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        yield from _on_futures(play, cells, pool, 1)


def _batches(cells: list[tuple[int, Any]], workers: int, size: int | None) -> list[list[tuple[int, Any]]]:
    size = size or max(1, min(BATCH_MOST, len(cells) // (BATCHES_PER_WORKER * max(1, workers))))
    return [cells[at : at + size] for at in range(0, len(cells), size)]


def _lost(batch: list[tuple[int, Any]], error: BaseException) -> Iterator[Done]:
    """Yield the outcomes of a batch that failed as a whole. A worker with other sources fails the whole sweep."""
    if isinstance(error, FingerprintError):
        raise error
    for nth, _ in batch:
        yield Done(nth, None, described(error))


def _on_futures(
    play: Callable[..., Any], cells: list[tuple[int, Any]], executor: Executor, size: int | None
) -> Iterator[Done]:
    workers = getattr(executor, "_max_workers", None) or os.cpu_count() or 1
    on_threads = isinstance(executor, concurrent.futures.ThreadPoolExecutor)
    ended = Event()
    batches: dict[Any, list[tuple[int, Any]]] = {}
    try:
        for batch in _batches(cells, workers, size):
            stop = (ended,) if on_threads else ()
            batches[executor.submit(play_batch, play, batch, FINGERPRINT, *stop)] = batch
        for future in concurrent.futures.as_completed(batches):
            error = future.exception()
            if error is not None:
                yield from _lost(batches[future], error)
            else:
                yield from future.result()
    finally:
        ended.set()
        for future in batches:
            future.cancel()


def _on_dask(
    play: Callable[..., Any], cells: list[tuple[int, Any]], client: Executor, size: int | None
) -> Iterator[Done]:
    from distributed import as_completed

    workers = sum(client.ncores().values()) or 1
    batches: dict[Any, list[tuple[int, Any]]] = {}
    try:
        for batch in _batches(cells, workers, size):
            batches[client.submit(play_batch, play, batch, FINGERPRINT, pure=False)] = batch
        for future in as_completed(list(batches)):  # type: ignore[no-untyped-call]
            # A batch of a lost worker is played again by another worker, until the cluster gives up. `result` waits for
            # it, also if the worker was lost after the batch had ended.
            try:
                outcomes = future.result()
            except (Exception, asyncio.CancelledError) as error:
                outcomes = _lost(batches[future], error)
            yield from outcomes
            future.release()
    finally:
        # A client that has been closed cannot cancel its batches.
        with contextlib.suppress(Exception):
            client.cancel(list(batches))
