"""Tactus: CPU schedulers of hosts and virtual machines, simulated.

>>> import tactus_sched as ts
>>> scenario = ts.Scenario.from_file("scenarios/three-vms.toml")
>>> ts.compare(scenario, ["credit", "cfs", "edf"])

A :class:`Scenario` describes VMs and tasks, their machines, and the length of a run. :func:`run` runs it under a policy and
returns a :class:`Result`; :func:`compare` runs it under several policies; :func:`sweep` runs it for each combination of
values and seeds, on threads, processes or a Dask cluster. :class:`Service` is a client of ``tactus serve``. Results are deterministic: equal scenarios, policies, knobs
and seeds give equal results on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from . import _native, tasksets
from ._native import FINGERPRINT, Context, Result, Scenario, __version__
from .comparison import Comparison, distribution
from .errors import (
    FingerprintError,
    InputError,
    InternalError,
    LawError,
    PolicyError,
    Problem,
    Stopped,
    TactusError,
)
from .knobs import Knobs, seed_of, settings, settings_for
from .pictures import Svg
from .policy import Params, Policy, Refused, params
from .service import Service, ServiceError
from .sweeps import Sweep, sweep
from .tables import ArrowTable

def run(
    scenario: Scenario,
    policy: str | Callable[[], Policy] | None = None,
    *,
    knobs: Knobs | None = None,
    guest_policy: str | None = None,
    guest_knobs: Knobs | None = None,
    seed: int | None = None,
    trace: bool = False,
    switches: bool = False,
    jobs: bool = False,
    audit: bool = False,
    progress: Callable[[int, int], Any] | None = None,
) -> Result:
    """Run ``scenario`` under ``policy`` and return the result.

    ``policy`` is the name of a policy (:func:`policies`), or a class derived from :class:`Policy`; by default, the
    scenario names its policy. ``guest_policy`` replaces the policies of all guests. ``seed`` is the seed of random
    numbers, by default the scenario's.

    ``trace``, ``switches`` and ``jobs`` record events, context switches and jobs as tables of the result. ``audit``
    checks the laws of scheduling independently (``Result.broken_laws``).

    ``progress`` is called about 25 times a second with the simulated time and the end of the run, in nanoseconds. If it
    returns a false value other than ``None``, the run ends with :class:`Stopped`. Ctrl-C ends the run within 100 ms.

    The run releases the GIL, so several threads run several scenarios at once.

    Raises :class:`InputError`, :class:`PolicyError`, :class:`LawError`, :class:`Stopped` or :class:`InternalError`.
    """
    return _native.run(
        scenario,
        policy,
        knobs=settings(knobs),
        guest_policy=guest_policy,
        guest_knobs=settings(guest_knobs),
        seed=None if seed is None else seed_of(seed),
        trace=trace,
        switches=switches,
        jobs=jobs,
        audit=audit,
        progress=progress,
    )


def compare(
    scenario: Scenario,
    policies: Sequence[str | Callable[[], Policy]],
    *,
    knobs: Knobs | None = None,
    seed: int | None = None,
    jobs: bool = False,
) -> Comparison:
    """Run ``scenario`` under each of ``policies`` with the same seed. Raises the exceptions of :func:`run`.

    As in ``tactus sim --policy A,B``, a knob applies to the policies that have it.
    """
    seed = None if seed is None else seed_of(seed)
    return Comparison(
        [
            _native.run(scenario, policy, knobs=settings_for(policy, knobs, policies), seed=seed, jobs=jobs)
            for policy in policies
        ]
    )


def policies() -> list[dict[str, Any]]:
    """Return all policies, each with its name, title, source, promises, knobs and essay (``text``)."""
    listed: list[dict[str, Any]] = json.loads(_native.policies())
    return listed


__all__ = [
    "FINGERPRINT",
    "ArrowTable",
    "Comparison",
    "Context",
    "FingerprintError",
    "InputError",
    "InternalError",
    "Knobs",
    "LawError",
    "Params",
    "Policy",
    "PolicyError",
    "Problem",
    "Refused",
    "Result",
    "Scenario",
    "Service",
    "ServiceError",
    "Stopped",
    "Svg",
    "Sweep",
    "TactusError",
    "__version__",
    "compare",
    "distribution",
    "params",
    "policies",
    "run",
    "sweep",
    "tasksets",
]
