"""Files of SimSo: each job starts and ends when it does in SimSo 0.8.5."""

from __future__ import annotations

import contextlib
import io
import random
import warnings
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
import tactus_sched as ts

with warnings.catch_warnings():
    # SimSo imports a module that Python 3.12 lacks.
    warnings.simplefilter("ignore")
    simso = pytest.importorskip("simso.core", reason="SimSo 0.8.5 needs Python 3.11 or older")
    from simso.configuration import Configuration
    from simso.configuration.GenerateConfiguration import generate
    from simso.core.JobEvent import JobEvent

FINE = 1000
"""Cycles per millisecond: a cycle is a microsecond."""
COARSE = 10
"""Cycles per millisecond of systems in which many events happen at one instant."""
LENGTH_MS = 400
SCHEDULERS = ("EDF", "EDF_mono", "FP", "RM", "RM_mono")

Job = tuple[str, int, int | None, int | None]
"""A job: its task, and its release, first execution and completion in cycles."""


def task_set(seed: int, cycles: int = FINE) -> Configuration:
    """Return a random system of ``cycles`` per millisecond: its scheduler, one to four processors, overheads on one, and tasks of both kinds.

    No two tasks have jobs with equal deadlines, and all periods and priorities differ: SimSo breaks ties by the order
    of its lists.
    """
    draw = random.Random(seed)
    scheduler = SCHEDULERS[seed % len(SCHEDULERS)]
    cpus = 1 if scheduler.endswith("_mono") or draw.random() < 0.4 else draw.randint(2, 4)
    system = Configuration()
    system.cycles_per_ms, system.duration = cycles, LENGTH_MS * cycles
    system.scheduler_info.clas = f"simso.schedulers.{scheduler}"
    system.task_data_fields["priority"] = "int"

    def overhead(most: int) -> int:
        """Return an overhead of at most ``most`` thousandths of a millisecond, or of nine coarse cycles."""
        return draw.choice([0, draw.randint(1, most if cycles == FINE else 9)])

    overheads = cpus == 1 and draw.random() < 0.6
    if overheads:
        info = system.scheduler_info
        info.overhead, info.overhead_activate, info.overhead_terminate = overhead(300), overhead(100), overhead(100)
    for cpu in range(cpus):
        contexts = {"cl_overhead": overhead(200), "cs_overhead": overhead(200)} if overheads else {}
        system.add_processor(name=f"CPU {cpu}", identifier=cpu, **contexts)
    # The global schedulers with a ready list lose the running job when a waiting job is aborted.
    aborts = scheduler not in ("FP", "RM")
    add_tasks(system, draw, draw.randint(2, 5) * cpus, draw.uniform(0.5, 1.2) * cpus, aborts)
    system.check_all()
    return system


def add_tasks(system: Configuration, draw: random.Random, count: int, load: float, aborts: bool) -> None:
    cycles, length = system.cycles_per_ms, system.duration
    shares = [draw.random() for _ in range(count)]
    priorities = draw.sample(range(-50, 200), count)
    periods: set[int] = set()
    taken: set[int] = set()
    while len(periods) < count:
        number = len(periods)
        period = draw.randint(5 * cycles, 60 * cycles)
        work = min(period, max(1, int(period * load * shares[number] / sum(shares))))
        deadline = draw.choice([period, draw.randint(1, period), draw.randint(period, 2 * period)])
        first = draw.randint(0, period)
        dates = list(range(first, length, period))
        sporadic = draw.random() < 0.3
        if sporadic:
            dates = [date for date in (draw.randint(0, length - 1) for _ in dates)]
        deadlines = [date + deadline for date in dates]
        if period in periods or taken & set(deadlines) or len(set(deadlines)) < len(deadlines):
            continue
        periods.add(period)
        taken |= set(deadlines)
        system.add_task(
            name=f"T{number}",
            identifier=number,
            task_type="Sporadic" if sporadic else "Periodic",
            period=period / cycles,
            activation_date=first / cycles,
            list_activation_dates=sorted(date / cycles for date in dates) if sporadic else [],
            wcet=work / cycles,
            deadline=deadline / cycles,
            abort_on_miss=aborts and draw.random() < 0.5,
            data={"priority": priorities[number]},
        )


def jobs_of_simso(system: Configuration) -> list[Job]:
    """Return the jobs of a run in SimSo. An execution of length 0 does not count as a start."""
    model = simso.Model(system)
    # SimSo's schedulers print their decisions.
    with contextlib.redirect_stdout(io.StringIO()):
        model.run_model()
    jobs = []
    for task in model.task_list:
        started: dict[object, int] = {}
        ended: dict[object, int] = {}
        running: dict[object, int] = {}
        for now, event in task.monitor:
            if event.event == JobEvent.EXECUTE:
                running[event.job] = now
            elif event.event != JobEvent.ACTIVATE:
                since = running.pop(event.job, now)
                if since < now:
                    started.setdefault(event.job, since)
                if event.event == JobEvent.TERMINATED:
                    ended[event.job] = now
        for job, since in running.items():
            started.setdefault(job, since)
        for job in task.jobs:
            release = round(job.activation_date * system.cycles_per_ms)
            times = (started.get(job), ended.get(job))
            if release < system.duration:
                within = (time if time is not None and time < system.duration else None for time in times)
                jobs.append((task.name, release, *within))
    return sorted(jobs, key=lambda job: job[:2])


def jobs_of_tactus(result: ts.Result, cycles_per_ms: int = FINE) -> list[Job]:
    def cycles(ns: int | None) -> int | None:
        return None if ns is None else ns * cycles_per_ms // 1_000_000

    rows = pa.table(result.jobs).to_pylist()
    times = ("release_ns", "start_ns", "completion_ns")
    return sorted(((row["entity"], *(cycles(row[time]) for time in times)) for row in rows), key=lambda job: job[:2])


def test_every_job_starts_and_ends_as_in_simso() -> None:
    seen: Counter[str] = Counter()
    for seed in range(100):
        system = task_set(seed)
        scenario = ts.Scenario(generate(system), f"{seed}.xml")
        theirs, ours = jobs_of_simso(system), jobs_of_tactus(ts.run(scenario, jobs=True))
        assert ours == theirs, f"seed {seed}: {next(pair for pair in zip(ours, theirs) if pair[0] != pair[1])}"
        info, cpus = system.scheduler_info, system.proc_info_list
        seen["jobs"] += len(ours)
        seen["incomplete"] += sum(job[3] is None for job in ours)
        seen["several processors"] += len(cpus) > 1
        seen["overheads"] += any([info.overhead, info.overhead_activate, cpus[0].cl_overhead, cpus[0].cs_overhead])
        seen["aborts"] += any(task.abort_on_miss for task in system.task_info_list)
        seen["sporadic"] += any(task.task_type == "Sporadic" for task in system.task_info_list)
    print(dict(seen))
    assert seen["jobs"] > 5_000 and seen["incomplete"] > 100
    assert min(seen[kind] for kind in ("several processors", "overheads", "aborts", "sporadic")) > 20


def test_events_at_one_instant_have_the_order_of_simso() -> None:
    """The completions of systems with coarse times are compared. A job that is interrupted at its start counts as
    started in Tactus if the run ends before it executes, so starts are not compared."""
    jobs = 0
    for seed in range(300):
        system = task_set(seed, COARSE)
        result = ts.run(ts.Scenario(generate(system), f"{seed}.xml"), jobs=True)
        theirs = [(task, release, end) for task, release, _, end in jobs_of_simso(system)]
        ours = [(task, release, end) for task, release, _, end in jobs_of_tactus(result, COARSE)]
        assert ours == theirs, f"seed {seed}: {next(pair for pair in zip(ours, theirs) if pair[0] != pair[1])}"
        jobs += len(ours)
    assert jobs > 15_000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Another order of the jobs, jobs that are not aborted, and no overheads.
        ("schedulers.EDF_mono", "schedulers.RM_mono"),
        ('abort_on_miss="yes"', 'abort_on_miss="no"'),
        ('overhead="', 'overhead="1'),
    ],
)
def test_another_system_has_other_jobs(old: str, new: str) -> None:
    systems = [task_set(seed) for seed in range(1, 100, 5)]
    differences = 0
    for seed, system in enumerate(systems):
        text = generate(system)
        if old in text:
            result = ts.run(ts.Scenario(text.replace(old, new), f"{seed}.xml"), jobs=True)
            differences += jobs_of_tactus(result) != jobs_of_simso(system)
    assert differences > 5


def test_a_file_of_simso_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "set.xml"
    path.write_text(generate(task_set(1)))
    scenario = ts.Scenario.from_file(path)
    assert (scenario.policy, scenario.cpus, scenario.title) == ("edf", 1, "set.xml")
    assert scenario.names == [f"T{number}" for number in range(len(scenario.names))]
    result = ts.run(scenario, jobs=True, audit=True)
    assert result.broken_laws == []
    # Another policy schedules the same tasks.
    assert ts.run(scenario, "cfs").report["total"]["releases"] == result.report["total"]["releases"]
    wrong = path.read_text().replace('task_type="Periodic"', 'task_type="Periodic" followed_by="1"')
    with pytest.raises(ts.InputError, match="followed_by") as raised:
        ts.Scenario(wrong, "set.xml")
    assert raised.value.problems[0].place.startswith("set.xml:")
    with pytest.raises(ts.InputError, match="a scenario of SimSo has no keys"):
        scenario.set("cpus", 2)
