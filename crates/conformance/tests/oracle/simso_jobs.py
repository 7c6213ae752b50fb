#!/usr/bin/env python3
"""Prints one line for each job of a task set under SimSo (PyPI `simso` 0.8.5): task, release, completion.

    simso_jobs.py global|partitioned CPUS END_US < tasks

`tasks` has one line per task: id, period, execution time, first release; all whole microseconds. The deadline is the
end of the period. The completion of a job that is incomplete at the end of the simulation is `-`.
"""
import os
import sys

from simso.configuration import Configuration
from simso.core import Model

CLASSES = {"global": "simso.schedulers.EDF", "partitioned": "simso.schedulers.P_EDF"}


def main():
    mode, cpus, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    configuration = Configuration()
    # A "millisecond" of SimSo stands for a microsecond of the task set and has one cycle, so all times are whole
    # numbers.
    configuration.cycles_per_ms = 1
    configuration.duration = end
    for line in sys.stdin:
        task, period, work, first = (int(word) for word in line.split())
        configuration.add_task(
            name=f"T{task}",
            identifier=task,
            period=period,
            deadline=period,
            wcet=work,
            activation_date=first,
            abort_on_miss=False,  # The default drops late jobs.
        )
    for cpu in range(cpus):
        configuration.add_processor(name=f"CPU{cpu}", identifier=cpu)
    configuration.scheduler_info.clas = CLASSES[mode]
    configuration.check_all()
    model = Model(configuration)
    # SimSo's schedulers print their decisions to stdout.
    out, sys.stdout = sys.stdout, open(os.devnull, "w", encoding="utf-8")
    model.run_model()
    sys.stdout = out
    for task, result in model.results.tasks.items():
        for job in result.jobs:
            done = "-" if job.end_date is None else int(job.end_date)
            print(task.identifier, int(job.activation_date), done)


main()
