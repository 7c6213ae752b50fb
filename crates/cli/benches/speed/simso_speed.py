"""Releases + completions per second of SimSo's global EDF: CSV CPUS SECONDS."""
import csv
import importlib
import io
import sys
import time

from simso.configuration import Configuration
from simso.core import Model

module = importlib.import_module("simso.core.Model")
results = module.Results


class Unmeasured:
    """Stands in for SimSo's own statistics while the simulation is timed."""

    def __init__(self, model):
        pass

    def end(self):
        pass


path, cpus, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
configuration = Configuration()
configuration.cycles_per_ms = 1  # A cycle stands for a microsecond, so every number is whole.
configuration.duration = int(seconds * 1e6)
for row in csv.DictReader(open(path)):
    number, period, wcet = int(row["id"]), int(row["period_us"]), int(row["wcet_us"])
    configuration.add_task(name=f"T{number}", identifier=number, period=period, activation_date=0, wcet=wcet,
                           deadline=period, abort_on_miss=False)
for cpu in range(cpus):
    configuration.add_processor(name=f"CPU{cpu}", identifier=cpu)
configuration.scheduler_info.clas = "simso.schedulers.EDF"
configuration.check_all()
module.Results = Unmeasured
model = Model(configuration)
out, sys.stdout = sys.stdout, io.StringIO()  # The scheduler prints every decision.
start = time.perf_counter()
model.run_model()
took = time.perf_counter() - start
sys.stdout = out
measured = results(model)
measured.end()
jobs = [job for task in measured.tasks.values() for job in task.jobs]
print((len(jobs) + sum(1 for job in jobs if job.end_date)) / took)
