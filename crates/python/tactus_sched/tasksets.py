"""Random task sets for schedulability studies: utilisations, periods, and execution times.

>>> utilisations = tasksets.uunifast_discard(8, 0.85, seed=1)[0]
>>> periods_us = tasksets.periods_log_uniform(8, 10_000, 1_000_000, seed=1, granularity_us=1_000)[0]
>>> scenario = Scenario.from_tasks(tasksets.task_set(utilisations, periods_us), length="10s")

Both generators of utilisations draw each set uniformly from all sets with the requested sum. They therefore have the
same distribution. :func:`uunifast_discard` is slow if the sum is near the number of tasks. :func:`randfixedsum` is
equally fast for every sum, and also accepts bounds. Equal seeds give equal sets.

Sources: Bini and Buttazzo, "Measuring the Performance of Schedulability Tests", Real-Time Systems 30, 2005; Davis and
Burns, "Improved Priority Assignment for Global Fixed Priority Pre-emptive Scheduling in Multiprocessor Real-Time
Systems", Real-Time Systems 47, 2011; Stafford, "Random Vectors with Fixed Sum", MATLAB Central, 2006; Emberson,
Stafford and Davis, "Techniques for the Synthesis of Multiprocessor Tasksets", WATERS 2010.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import NoReturn

from .errors import InputError

ATTEMPTS_MOST = 100_000
"""Greatest number of draws of :func:`uunifast_discard` for one set. They take less than a second in most cases."""
TASKS_MOST = 1_000
"""Greatest number of tasks of :func:`randfixedsum`, whose table grows with the square of this number."""


def _refuse(reason: str, remedy: str) -> NoReturn:
    raise InputError([("", reason, remedy)])


def _check_counts(tasks: int, sets: int) -> None:
    if tasks < 1:
        _refuse(f"{tasks} tasks are out of range", "use at least 1 task")
    if sets < 0:
        _refuse(f"{sets} sets are out of range", "use 0 sets or more")


def uunifast_discard(tasks: int, utilisation: float, *, seed: int, sets: int = 1) -> list[list[float]]:
    """Return ``sets`` lists of ``tasks`` utilisations with the sum ``utilisation``, each from 0 to 1.

    The lists are uniformly distributed: UUniFast (Bini and Buttazzo 2005), without the sets in which the utilisation of
    a task exceeds 1 (Davis and Burns 2011). ``utilisation`` is above 0 and at most ``tasks``, which is at least 1.

    Raises :class:`InputError`, also if ``ATTEMPTS_MOST`` draws contain no valid set.
    """
    _check_counts(tasks, sets)
    if not 0 < utilisation <= tasks:
        _refuse(f"a utilisation of {utilisation} is out of range", f"use more than 0 and at most {tasks}")
    random = Random(seed)
    return [_uunifast_valid(tasks, utilisation, random) for _ in range(sets)]


def _uunifast_valid(tasks: int, utilisation: float, random: Random) -> list[float]:
    for _ in range(ATTEMPTS_MOST):
        drawn = _uunifast(tasks, utilisation, random)
        if drawn is not None:
            return drawn
    reason = f"{ATTEMPTS_MOST} draws of {tasks} tasks with a utilisation of {utilisation} all have a task above 1"
    _refuse(reason, "use randfixedsum, which discards no sets")


def _uunifast(tasks: int, utilisation: float, random: Random) -> list[float] | None:
    """Draw a set. ``None``: the utilisation of a task exceeds 1."""
    drawn = []
    rest = utilisation
    # The sum of n - 1 of n utilisations, relative to the sum of all n, is the greatest of n - 1 uniform numbers.
    for others in range(tasks - 1, 0, -1):
        of_others = rest * random.random() ** (1 / others)
        if rest - of_others > 1:
            return None
        drawn.append(rest - of_others)
        rest = of_others
    drawn.append(rest)
    return drawn if rest <= 1 else None


def randfixedsum(
    tasks: int, utilisation: float, *, seed: int, sets: int = 1, least: float = 0.0, most: float = 1.0
) -> list[list[float]]:
    """Return ``sets`` lists of ``tasks`` utilisations with the sum ``utilisation``, each from ``least`` to ``most``.

    The lists are uniformly distributed (Stafford 2006; Emberson, Stafford and Davis 2010). ``tasks`` is from 1 to
    ``TASKS_MOST``, and ``utilisation`` from ``tasks * least`` to ``tasks * most``, with ``0 <= least < most <= 1``.

    Raises :class:`InputError`.
    """
    _check_counts(tasks, sets)
    if tasks > TASKS_MOST:
        _refuse(f"{tasks} tasks are out of range", f"use at most {TASKS_MOST} tasks")
    if not 0 <= least < most <= 1:
        _refuse(f"utilisations from {least} to {most} are out of range", "use 0 <= least < most <= 1")
    # The bounds have rounding errors of their own: 10 * 0.1 is not exactly the sum of ten times 0.1.
    tolerance = 1e-12 * tasks
    if not tasks * least - tolerance <= utilisation <= tasks * most + tolerance:
        bounds = f"from {tasks * least:g} to {tasks * most:g}"
        _refuse(f"a utilisation of {utilisation} is out of range", f"use {bounds}, or other bounds of a task")
    random = Random(seed)
    width = most - least
    total = min(max((utilisation - tasks * least) / width, 0.0), float(tasks))
    if total in (0.0, float(tasks)):
        return [[least if total == 0.0 else most] * tasks for _ in range(sets)]
    table = _facets_at_zero(tasks, total)
    points = (_point_of_slice(tasks, total, table, random) for _ in range(sets))
    return [[min(least + width * x, most) for x in point] for point in points]


# `randfixedsum` draws a uniform point of a slice: the points of the unit cube whose n coordinates have the sum s. Seen
# from its centre (s/n, ..., s/n), the slice consists of pyramids. The base of a pyramid is a facet, in which one
# coordinate is 0 or 1. A facet is a slice of n - 1 coordinates with the sum s or s - 1. The height of a pyramid is
# proportional to s/n (facet at 0) or 1 - s/n (facet at 1). The size f of a slice is the sum of its pyramids:
#
#     (n - 1) f(n, s) = s f(n - 1, s) + (n - s) f(n - 1, s - 1)
#
# No term is negative, so the recurrence is numerically stable. The table is computed from logarithms, because the sizes
# of slices with some hundreds of coordinates are below the range of a float.


def _facets_at_zero(tasks: int, total: float) -> list[list[float]]:
    """Return the probabilities of a facet at 0: ``table[n][ones]`` for n coordinates with the sum ``total - ones``."""
    whole = math.floor(total)
    sizes = [0.0 if total - ones <= 1 else -math.inf for ones in range(whole + 1)]
    table: list[list[float]] = [[], []]
    for n in range(2, tasks + 1):
        row = []
        previous, sizes = sizes, []
        for ones in range(whole + 1):
            rest = total - ones
            zero = math.log(rest) + previous[ones] if rest > 0 else -math.inf
            one = math.log(n - rest) + previous[ones + 1] if ones < whole and rest < n else -math.inf
            size, probability = _log_sum_and_share(zero, one)
            # The factor n - 1 is common to the row and cancels in all probabilities.
            sizes.append(size)
            row.append(probability)
        table.append(row)
    return table


def _log_sum_and_share(first: float, second: float) -> tuple[float, float]:
    """Return the logarithm of the sum of two numbers and the share of the first, from the logarithms of the numbers."""
    if first == second == -math.inf:
        return -math.inf, 1.0
    ratio = math.exp(-abs(first - second))
    share_of_greater = 1 / (1 + ratio)
    share = share_of_greater if first >= second else ratio * share_of_greater
    return max(first, second) + math.log1p(ratio), share


def _point_of_slice(tasks: int, total: float, table: list[list[float]], random: Random) -> list[float]:
    """Draw a uniform point of the slice of ``tasks`` coordinates with the sum ``total``, between 0 and ``tasks``."""
    point = []
    ones = 0
    # The remaining coordinates are `offset`, plus `scale` times the coordinates of the slice that is still to be drawn.
    offset, scale = 0.0, 1.0
    for n in range(tasks, 1, -1):
        facet = 0 if random.random() < table[n][ones] else 1
        # Distance of the point from the centre, relative to that of the facet: a pyramid of n - 1 dimensions.
        distance = random.random() ** (1 / (n - 1))
        offset += scale * (1 - distance) * (total - ones) / n
        scale *= distance
        point.append(offset + scale * facet)
        ones += facet
    point.append(offset + scale * (total - ones))
    # The coordinate of each facet is random; one permutation at the end is equivalent.
    random.shuffle(point)
    return [min(max(x, 0.0), 1.0) for x in point]


def periods_log_uniform(
    tasks: int, least_us: int, most_us: int, *, seed: int, sets: int = 1, granularity_us: int = 1
) -> list[list[int]]:
    """Return ``sets`` lists of ``tasks`` periods in microseconds, from ``least_us`` to ``most_us``.

    The logarithms of the periods are uniformly distributed. The periods are multiples of ``granularity_us``, as are the
    bounds, with ``1 <= granularity_us <= least_us <= most_us`` (Emberson, Stafford and Davis 2010, section 4).

    Raises :class:`InputError`.
    """
    _check_counts(tasks, sets)
    if not 1 <= granularity_us <= least_us <= most_us:
        reason = f"periods from {least_us} to {most_us} us in steps of {granularity_us} us are out of range"
        _refuse(reason, "use 1 <= granularity_us <= least_us <= most_us")
    if least_us % granularity_us or most_us % granularity_us:
        reason = f"{least_us} or {most_us} us is no multiple of {granularity_us} us"
        _refuse(reason, "use multiples of granularity_us as bounds")
    random = Random(seed)
    # Each multiple stands for the interval from itself to the next multiple.
    low, high = math.log(least_us), math.log(most_us + granularity_us)

    def period() -> int:
        drawn = math.floor(math.exp(random.uniform(low, high)) / granularity_us) * granularity_us
        return min(max(drawn, least_us), most_us)

    return [[period() for _ in range(tasks)] for _ in range(sets)]


def task_set(utilisations: Sequence[float], periods_us: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs of period and execution time in microseconds that ``Scenario.from_tasks`` accepts.

    An execution time is the utilisation (0 to 1) times the period (at least 1 us), rounded to the nearest microsecond.
    It is at least 1 us and at most the period. The sum of the utilisations therefore changes slightly.

    Raises :class:`InputError`.
    """
    if len(utilisations) != len(periods_us):
        reason = f"there are {len(utilisations)} utilisations and {len(periods_us)} periods"
        _refuse(reason, "use as many utilisations as periods")
    pairs = []
    for utilisation, period_us in zip(utilisations, periods_us, strict=True):
        if not 0 <= utilisation <= 1:
            _refuse(f"a utilisation of {utilisation} is out of range", "use 0 to 1 for each task")
        if period_us < 1:
            _refuse(f"a period of {period_us} us is out of range", "use at least 1 us")
        wcet_us = math.floor(utilisation * period_us + 0.5)
        pairs.append((period_us, min(max(wcet_us, 1), period_us)))
    return pairs


__all__ = ["ATTEMPTS_MOST", "TASKS_MOST", "periods_log_uniform", "randfixedsum", "task_set", "uunifast_discard"]
