"""Reads ftrace text with TRAPpy. Prints one line per task: pid, executions, wake-ups, CPU time in microseconds, name.

Checks the events in order of time: each switch names the task that is on the CPU, no task is on two CPUs at once, and a
`sched_migrate_task` precedes every run on a new CPU.
"""

import sys

import trappy

EVENTS = ["sched_migrate_task", "sched_process_exit", "sched_process_free"]


def rows(frame):
    """Returns the rows of one of TRAPpy's tables, each with its time."""
    return [(at, row) for at, row in zip(frame.index, frame.to_dict("records"))] if len(frame) else []


def read(path, end):
    trappy.ftrace.GenericFTrace.disable_cache = True
    trace = trappy.FTrace(path, scope="sched", normalize_time=False, events=EVENTS)
    events = []
    for name in ["sched_switch", "sched_wakeup", "sched_wakeup_new"] + EVENTS:
        events += [(at, name, row) for at, row in rows(getattr(trace, name).data_frame)]
    # TRAPpy appends a digit to equal timestamps, so that sorting keeps the order of the file.
    events.sort(key=lambda event: event[0])
    names, ran, dispatches, wakeups = {}, {}, {}, {}
    on_cpu, cpu_of, last, since = {}, {}, {}, {}
    for at, name, row in events:
        cpu = row["__cpu"]
        assert row["__pid"] == on_cpu.get(cpu, 0), (at, name, row)
        if name == "sched_switch":
            prev, next_ = row["prev_pid"], row["next_pid"]
            assert prev == on_cpu.get(cpu, 0), (at, row)
            if prev:
                ran[prev] = ran.get(prev, 0) + at - since.pop(prev)
                del cpu_of[prev]
            on_cpu[cpu] = next_
            if next_:
                assert next_ not in cpu_of, (at, row)
                assert last.get(next_, cpu) == cpu, (at, row)
                names[next_] = row["next_comm"]
                cpu_of[next_], last[next_], since[next_] = cpu, cpu, at
                dispatches[next_] = dispatches.get(next_, 0) + 1
        elif name == "sched_migrate_task":
            assert last[row["pid"]] == row["orig_cpu"] != row["dest_cpu"], (at, row)
            last[row["pid"]] = row["dest_cpu"]
        elif name in ("sched_wakeup", "sched_wakeup_new"):
            wakeups[row["pid"]] = wakeups.get(row["pid"], 0) + 1
    for pid, at in since.items():
        ran[pid] = ran.get(pid, 0) + end - at
    for pid in sorted(dispatches):
        print(pid, dispatches[pid], wakeups.get(pid, 0), round(ran[pid] * 1e6), names[pid])


read(sys.argv[1], float(sys.argv[2]))
