"""Reads ftrace text with LISA's parser. Prints one line per task: pid, executions, wake-ups, CPU time in microseconds,
name.

LISA's parser of the kernel's text format shares no code with TRAPpy's parser.
"""

import sys
import warnings

warnings.simplefilter("ignore")

from lisa.trace import HRTxtTraceParser, MissingTraceEventError

EVENTS = ["sched_switch", "sched_wakeup", "sched_wakeup_new"]


def rows(parser, name):
    """Returns the rows of an event, each with its time. Empty if the event never occurred."""
    try:
        frame = parser.parse_event(name)
    except MissingTraceEventError:
        return []
    return list(zip(frame.index, frame.to_dict("records")))


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def read(path, end):
    with open(path, "rb") as lines:
        parser = HRTxtTraceParser(lines=list(lines), events=EVENTS, needed_metadata=[])
    names, ran, dispatches, wakeups, since = {}, {}, {}, {}, {}
    on_cpu = {}
    for at, row in rows(parser, "sched_switch"):
        cpu, prev, next_ = row["__cpu"], row["prev_pid"], row["next_pid"]
        assert prev == on_cpu.get(cpu, 0) == row["__pid"], (at, row)
        if prev:
            ran[prev] = ran.get(prev, 0) + at - since.pop(prev)
        on_cpu[cpu] = next_
        if next_:
            assert next_ not in since, (at, row)
            names[next_], since[next_] = text(row["next_comm"]), at
            dispatches[next_] = dispatches.get(next_, 0) + 1
    for name in EVENTS[1:]:
        for _, row in rows(parser, name):
            wakeups[row["pid"]] = wakeups.get(row["pid"], 0) + 1
    for pid, at in since.items():
        ran[pid] = ran.get(pid, 0) + end - at
    for pid in sorted(dispatches):
        print(pid, dispatches[pid], wakeups.get(pid, 0), round(ran[pid] * 1e6), names[pid])


read(sys.argv[1], float(sys.argv[2]))
