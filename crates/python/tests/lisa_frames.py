"""Writes the frames of a trace as LISA reads them, as JSON. Runs with a Python that has LISA."""

import sys
import warnings

warnings.simplefilter("ignore")

from lisa.trace import Trace

trace = Trace(sys.argv[1])
for event in ("sched_switch", "sched_wakeup"):
    frame = trace.df_event(event).reset_index()
    frame.to_json(f"{sys.argv[2]}/{event}.json", orient="records", double_precision=15)
