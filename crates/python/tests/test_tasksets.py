"""Generators of task sets. The oracle of their distributions is SimSo 0.8.5."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence

import numpy
import pytest
import tactus_sched as ts
from simso.generator import task_generator as simso
from tactus_sched import tasksets

Sets = list[list[float]]

SETS = 4_000
"""Number of sets in each sample of a comparison."""
ALPHA = 1e-3
"""Probability that a comparison of equal distributions fails. The seeds are fixed, so no comparison fails by chance."""
STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "first": lambda drawn: drawn[0],
    "last": lambda drawn: drawn[-1],
    "greatest": max,
    "least": min,
    "squares": lambda drawn: sum(x * x for x in drawn),
}
"""Numbers that summarise a set. Some of them depend on the joint distribution of the tasks."""


def ks_distance(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the two-sample statistic of Kolmogorov and Smirnov: the greatest difference of the distributions."""
    left, right = sorted(left), sorted(right)
    at, below_left, below_right = 0.0, 0, 0
    while below_left < len(left) and below_right < len(right):
        x = min(left[below_left], right[below_right])
        while below_left < len(left) and left[below_left] <= x:
            below_left += 1
        while below_right < len(right) and right[below_right] <= x:
            below_right += 1
        at = max(at, abs(below_left / len(left) - below_right / len(right)))
    return at


def differences(ours: Sets, theirs: Sets) -> list[str]:
    """Return the statistics in which the distributions of two samples differ."""
    critical = math.sqrt(-math.log(ALPHA / 2) / 2) * math.sqrt(1 / len(ours) + 1 / len(theirs))
    return [
        name
        for name, statistic in STATISTICS.items()
        if ks_distance([statistic(drawn) for drawn in ours], [statistic(drawn) for drawn in theirs]) > critical
    ]


def normalised(tasks: int, utilisation: float) -> Sets:
    """Return a rival: uniform numbers, scaled to the sum, without the sets that have a task above 1."""
    source = random.Random(3)
    sets: Sets = []
    while len(sets) < SETS:
        drawn = [source.random() for _ in range(tasks)]
        scaled = [x * utilisation / sum(drawn) for x in drawn]
        if max(scaled) <= 1:
            sets.append(scaled)
    return sets


@pytest.mark.parametrize(("tasks", "utilisation"), [(2, 0.7), (5, 0.9), (8, 2.5), (6, 3.0), (40, 4.0)])
def test_utilisations_are_distributed_as_in_simso(tasks: int, utilisation: float) -> None:
    random.seed(1)
    numpy.random.seed(1)
    by_uunifast = simso.UUniFastDiscard(tasks, utilisation, SETS)
    by_stafford = simso.StaffordRandFixedSum(tasks, utilisation, SETS)
    uunifast = tasksets.uunifast_discard(tasks, utilisation, seed=2, sets=SETS)
    fixed_sum = tasksets.randfixedsum(tasks, utilisation, seed=2, sets=SETS)
    assert differences(uunifast, by_uunifast) == []
    assert differences(fixed_sum, by_stafford) == []
    assert differences(uunifast, fixed_sum) == []
    if tasks > 2:
        rival = normalised(tasks, utilisation)
        assert set(differences(rival, by_uunifast)) >= {"first", "greatest"}
        assert set(differences(rival, by_stafford)) >= {"first", "greatest"}


def test_sums_near_the_number_of_tasks_are_distributed_as_in_simso() -> None:
    numpy.random.seed(4)
    assert differences(tasksets.randfixedsum(6, 5.6, seed=5, sets=SETS), simso.StaffordRandFixedSum(6, 5.6, SETS)) == []


def test_a_utilisation_has_its_exact_distribution() -> None:
    # Of n utilisations with the sum U <= 1, one exceeds x with the probability (1 - x/U)^(n - 1).
    for generator in (tasksets.uunifast_discard, tasksets.randfixedsum):
        drawn = sorted(u[3] for u in generator(7, 0.8, seed=6, sets=SETS))
        exact = [1 - (1 - x / 0.8) ** 6 for x in drawn]
        distance = max(abs(share - (nth + 0.5) / SETS) for nth, share in enumerate(exact)) + 0.5 / SETS
        assert distance < math.sqrt(-math.log(ALPHA / 2) / 2 / SETS)


def test_the_distance_of_samples_is_that_of_their_distributions() -> None:
    assert ks_distance([1, 2, 3, 4], [1, 2, 3, 4]) == 0
    assert ks_distance([1, 2, 3, 4], [3, 4, 5, 6]) == 0.5
    assert ks_distance([1, 1, 2], [2, 2, 2]) == pytest.approx(2 / 3)
    assert ks_distance([5], [1, 2]) == 1


@pytest.mark.parametrize(
    ("tasks", "utilisation"),
    [
        *((1, 0.4), (1, 1.0), (2, 1.0), (8, 0.001), (8, 2.0), (20, 19.99)),
        *((300, 0.5), (300, 17.0), (600, 299.5), (600, 600.0)),
    ],
)
def test_sums_are_exact_and_utilisations_in_range(tasks: int, utilisation: float) -> None:
    by_sum = [tasksets.randfixedsum(tasks, utilisation, seed=1, sets=20)]
    if utilisation < tasks / 10 or tasks == 1:
        by_sum.append(tasksets.uunifast_discard(tasks, utilisation, seed=1, sets=20))
    for sets in by_sum:
        assert len(sets) == 20
        for drawn in sets:
            assert len(drawn) == tasks
            assert math.fsum(drawn) == pytest.approx(utilisation, abs=1e-9)
            assert all(0 <= u <= 1 for u in drawn)


def test_bounds_hold_for_each_task() -> None:
    sets = tasksets.randfixedsum(10, 4.0, seed=1, sets=2_000, least=0.1, most=0.6)
    assert all(0.1 <= u <= 0.6 for drawn in sets for u in drawn)
    assert all(math.fsum(drawn) == pytest.approx(4.0, abs=1e-9) for drawn in sets)
    assert min(map(min, sets)) < 0.11 and max(map(max, sets)) > 0.59
    # The mean of a task is 0.4. The standard deviation of the mean of 2,000 numbers within 0.5 is below 0.006.
    assert all(sum(drawn[nth] for drawn in sets) / 2_000 == pytest.approx(0.4, abs=0.02) for nth in range(10))
    assert tasksets.randfixedsum(10, 1.0, seed=1, least=0.1) == [[0.1] * 10]
    assert tasksets.randfixedsum(10, 6.0, seed=1, most=0.6) == [[0.6] * 10]


def test_equal_seeds_give_equal_sets() -> None:
    for generator in (tasksets.uunifast_discard, tasksets.randfixedsum):
        first = generator(6, 1.5, seed=7, sets=5)
        assert generator(6, 1.5, seed=7, sets=5) == first
        assert generator(6, 1.5, seed=7, sets=3) == first[:3]
        assert generator(6, 1.5, seed=8, sets=5) != first
        assert len({tuple(drawn) for drawn in first}) == 5
    first_periods = tasksets.periods_log_uniform(6, 10, 1_000, seed=7, sets=5)
    assert tasksets.periods_log_uniform(6, 10, 1_000, seed=7, sets=5) == first_periods
    assert tasksets.periods_log_uniform(6, 10, 1_000, seed=8, sets=5) != first_periods


def test_the_state_of_the_random_module_is_untouched() -> None:
    random.seed(1)
    before = random.getstate()
    tasksets.uunifast_discard(6, 1.5, seed=7)
    tasksets.randfixedsum(6, 1.5, seed=7)
    tasksets.periods_log_uniform(6, 10, 1_000, seed=7)
    assert random.getstate() == before


def test_logarithms_of_periods_are_uniform() -> None:
    drawn = sorted(tasksets.periods_log_uniform(SETS, 10_000, 1_000_000, seed=1)[0])
    assert drawn[0] >= 10_000 and drawn[-1] <= 1_000_000
    uniform = [math.log(period / 10_000) / math.log(100) for period in drawn]
    distance = max(abs(share - (nth + 0.5) / SETS) for nth, share in enumerate(uniform)) + 0.5 / SETS
    critical = math.sqrt(-math.log(ALPHA / 2) / 2 / SETS)
    assert distance < critical
    # Uniform periods fail the same check.
    rival = [math.log(period / 10_000) / math.log(100) for period in range(10_000, 1_000_001, 990_000 // SETS)]
    assert max(abs(share - nth / len(rival)) for nth, share in enumerate(rival)) > critical


def test_periods_are_multiples_of_the_granularity() -> None:
    drawn = tasksets.periods_log_uniform(2_000, 5_000, 20_000, seed=1, granularity_us=5_000)[0]
    assert set(drawn) == {5_000, 10_000, 15_000, 20_000}
    # 5 ms stands for the logarithms up to 10 ms, which are ln(2)/ln(5) of all.
    assert drawn.count(5_000) / 2_000 == pytest.approx(math.log(2) / math.log(5), abs=0.04)
    assert tasksets.periods_log_uniform(3, 7, 7, seed=1) == [[7, 7, 7]]


def test_execution_times_are_rounded_to_microseconds() -> None:
    rounded = tasksets.task_set([0.25, 0.333, 0.0000001, 1.0], [10, 1_000, 100, 7])
    assert rounded == [(10, 3), (1_000, 333), (100, 1), (7, 7)]
    assert tasksets.task_set([], []) == []


@pytest.mark.parametrize(
    ("call", "reason", "remedy"),
    [
        (lambda: tasksets.uunifast_discard(0, 0.5, seed=1), "0 tasks", "at least 1 task"),
        (lambda: tasksets.uunifast_discard(4, 0, seed=1), "utilisation of 0", "more than 0 and at most 4"),
        (lambda: tasksets.uunifast_discard(4, 4.1, seed=1), "utilisation of 4.1", "at most 4"),
        (lambda: tasksets.uunifast_discard(4, math.nan, seed=1), "nan", "at most 4"),
        (lambda: tasksets.uunifast_discard(4, 1, seed=1, sets=-1), "-1 sets", "0 sets or more"),
        (lambda: tasksets.uunifast_discard(20, 19.9, seed=1), "have a task above 1", "use randfixedsum"),
        (lambda: tasksets.randfixedsum(4, 4.1, seed=1), "utilisation of 4.1", "from 0 to 4"),
        (lambda: tasksets.randfixedsum(4, 0.3, seed=1, least=0.1), "utilisation of 0.3", "from 0.4 to 4"),
        (lambda: tasksets.randfixedsum(4, 1, seed=1, least=0.5, most=0.5), "from 0.5 to 0.5", "least < most"),
        (lambda: tasksets.randfixedsum(4, 1, seed=1, most=1.5), "1.5", "most <= 1"),
        (lambda: tasksets.randfixedsum(1_001, 1, seed=1), "1001 tasks", "at most 1000"),
        (lambda: tasksets.periods_log_uniform(4, 0, 10, seed=1), "from 0 to 10", "1 <= granularity_us"),
        (lambda: tasksets.periods_log_uniform(4, 20, 10, seed=1), "from 20 to 10", "least_us <= most_us"),
        (lambda: tasksets.periods_log_uniform(4, 10, 25, seed=1, granularity_us=10), "no multiple", "multiples"),
        (lambda: tasksets.task_set([0.5], [10, 20]), "1 utilisations and 2 periods", "as many"),
        (lambda: tasksets.task_set([1.5], [10]), "utilisation of 1.5", "0 to 1"),
        (lambda: tasksets.task_set([0.5], [0]), "period of 0 us", "at least 1 us"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], object], reason: str, remedy: str) -> None:
    began = time.monotonic()
    with pytest.raises(ts.InputError) as raised:
        call()
    (problem,) = raised.value.problems
    assert reason in problem.reason and remedy in problem.remedy
    assert time.monotonic() - began < 5


def test_edf_meets_all_deadlines_of_generated_sets_up_to_a_full_cpu() -> None:
    def late(utilisation: float, policy: str) -> list[int]:
        periods = tasksets.periods_log_uniform(8, 10_000, 200_000, seed=3, sets=10, granularity_us=1_000)
        sets = zip(tasksets.randfixedsum(8, utilisation, seed=3, sets=10), periods, strict=True)
        totals = []
        for utilisations, periods_us in sets:
            it = ts.Scenario.from_tasks(tasksets.task_set(utilisations, periods_us), length="3s")
            total = ts.run(it, policy).report["total"]
            totals.append(total["misses"] + total["unfinished_late"])
        return totals

    assert late(0.99, "edf") == [0] * 10
    assert sum(late(0.99, "round-robin")) > 0
    assert all(misses > 0 for misses in late(1.2, "edf"))
