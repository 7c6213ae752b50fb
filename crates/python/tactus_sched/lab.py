"""The experiments of papers, on threads or on a Dask cluster: ``python -m tactus_sched.lab run all --dask tcp://…``.

The finished runs are stored in the directory of ``tactus lab run``. Afterwards, ``tactus lab run all --record`` records
them without repeating a run, if the command was built from the same sources.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from ._native import LabCell, LabSuite, Store, __version__
from .errors import TactusError
from .execution import Executor, played
from .pictures import Svg
from .progress import bar


def play(cell: LabCell, goes_on: Callable[[int, int], bool] | None = None) -> str:
    """Run ``cell`` and return its measurements as JSON."""
    return cell.play(goes_on)


def _selected(claims: str | Sequence[str]) -> list[str]:
    """Return the ids of ``claims``; none for all claims."""
    chosen = [claims] if isinstance(claims, str) else list(claims)
    return [] if "all" in chosen else chosen


def run(
    claims: str | Sequence[str] = (),
    *,
    papers: str | PathLike[str] = "papers",
    results: str | PathLike[str] = "lab-results",
    extent: str = "usual",
    seeds: int | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> list[dict[str, Any]]:
    """Run the experiments that test ``claims`` (by default all claims) and return the verdicts of each paper.

    Runs that are in the directory ``results`` are not repeated. ``extent`` is ``"usual"``, ``"full"`` (the size of the
    papers) or ``"smoke"`` (a few points, too few for a verdict: the result is empty).

    Raises :class:`tactus_sched.InputError`, or ``RuntimeError`` with the reasons
    if some runs failed; the runs that succeeded are stored.
    """
    suite, store = LabSuite(papers, _selected(claims), extent, seeds), Store(results)
    # The first runs show which points depend on chance. These points then have further seeds.
    while cells := suite.cells(store):
        failed = []
        size = max(suite.size, len(cells))
        with bar(size, size - len(cells), shown=progress) as ended:
            for done in played(play, cells, executor, workers=workers):
                if done.value is None:
                    failed.append(f"{cells[done.nth]!r}: {done.error}")
                else:
                    suite.put(store, cells[done.nth], done.value)
                ended.update()
        if failed:
            shown = "\n".join(failed[:10])
            raise RuntimeError(f"{len(failed)} of {len(cells)} runs failed:\n{shown}")
    if extent == "smoke":
        return []
    verdicts: list[dict[str, Any]] = json.loads(suite.verdicts(store))
    return verdicts


def figures(
    claims: str | Sequence[str] = (),
    *,
    papers: str | PathLike[str] = "papers",
    results: str | PathLike[str] = "lab-results",
    extent: str = "usual",
    seeds: int | None = None,
) -> dict[str, Svg]:
    """Return the figures of the experiments that test ``claims``, by name, from the runs in the directory ``results``.

    The values that a paper prints are marked in its figures. Experiments that were not run are left out.
    """
    suite = LabSuite(papers, _selected(claims), extent, seeds)
    return {name: Svg(svg) for name, svg in suite.figures(Store(results)).items()}


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tactus_sched.lab", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="run")
    command = commands.add_parser("run", help="run experiments and print the verdicts on their claims")
    command.add_argument("claims", nargs="*", help="ids of claims, such as C1; `all` or none: all claims")
    command.add_argument("--papers", default="papers", help="directory of the papers (default: papers)")
    command.add_argument("--results", default="lab-results", help="directory of finished runs (default: lab-results)")
    command.add_argument("--dask", metavar="ADDRESS", help="address of a Dask scheduler, such as tcp://host:8786")
    command.add_argument("--workers", type=int, help="number of threads without --dask (default: one per CPU)")
    command.add_argument("--seeds", type=int, help="number of seeds (default: as each experiment says)")
    size = command.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="run at the size of the papers")
    size.add_argument("--smoke", action="store_true", help="run a few points")
    command.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    return parser


def _client(address: str | None) -> Executor | None:
    if address is None:
        return None
    try:
        from distributed import Client
    except ImportError:
        raise RuntimeError("--dask needs the package `distributed`: pip install 'tactus-sched[dask]'") from None
    return Client(address)  # type: ignore[no-untyped-call]


def _text(verdicts: list[dict[str, Any]]) -> str:
    lines = []
    for paper in verdicts:
        lines.append(f"{paper['paper']}\n")
        for verdict in paper["verdicts"]:
            lines.append(f"{verdict['id']:<4} {verdict['status']:<10} {' '.join(verdict['claim'].split())}")
        lines.append("")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Return 0, 1 after a failure, 2 for a wrong input, or 130 after Ctrl-C."""
    asked = _arguments().parse_args(arguments)
    extent = "full" if asked.full else "smoke" if asked.smoke else "usual"
    try:
        verdicts = run(
            asked.claims,
            papers=asked.papers,
            results=asked.results,
            extent=extent,
            seeds=asked.seeds,
            executor=_client(asked.dask),
            workers=asked.workers,
            progress=sys.stderr.isatty(),
        )
    except KeyboardInterrupt:
        print("interrupted: finished runs are kept, and the same command resumes", file=sys.stderr)
        return 130
    except TactusError as error:
        print(error, file=sys.stderr)
        return 2
    except (RuntimeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(verdicts, indent=2) if asked.json else _text(verdicts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
