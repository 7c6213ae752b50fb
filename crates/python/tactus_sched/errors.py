"""The exceptions of :mod:`tactus_sched`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Problem(NamedTuple):
    """One error in an input."""

    place: str
    """The position as ``file:line:column``; empty if the input is no file."""
    reason: str
    """What is wrong."""
    remedy: str
    """What to write instead."""

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{place}{self.reason}{remedy}"


class TactusError(Exception):
    """Base class of the errors that a user can correct."""


class InputError(TactusError, ValueError):
    """A scenario, a policy, a knob or another input is invalid.

    ``problems`` contains at most ten problems. ``count`` is the number of all problems. ``report`` shows each problem
    with its line in the file, underlined; the lines of a scenario from a dict are those of its TOML.
    """

    def __init__(
        self, problems: Sequence[tuple[str, str, str]], count: int | None = None, report: str | None = None
    ) -> None:
        self.problems = [Problem(*problem) for problem in problems]
        self.count = len(self.problems) if count is None else count
        super().__init__([tuple(problem) for problem in self.problems], self.count, report)
        self.report = str(self) if report is None else report

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems]
        if self.count > len(lines):
            lines.append(f"and {self.count - len(lines)} more")
        return "\n".join(lines)


class PolicyError(TactusError):
    """A method of a policy in Python raised an exception, which is the ``__cause__``."""

    def __init__(self, policy: str, method: str) -> None:
        self.policy = policy
        self.method = method
        super().__init__(policy, method)

    def __str__(self) -> str:
        return f"the policy {self.policy!r} raised an exception in {self.method}()"


class FailedRun(Exception):
    """Base class of the errors of a run that can be repeated. ``replay`` repeats the run."""

    def __init__(self, message: str, replay: str) -> None:
        self.message = message
        self.replay = replay
        super().__init__(message, replay)

    def __str__(self) -> str:
        return f"{self.message}\nto repeat: {self.replay}"


class LawError(FailedRun, TactusError):
    """A policy in Python broke a law of scheduling, such as running an entity on two CPUs."""


class Stopped(TactusError):
    """The run was stopped, because its ``progress`` function returned ``False``."""

    def __init__(self, now_ns: int) -> None:
        self.now_ns = now_ns
        super().__init__(now_ns)

    def __str__(self) -> str:
        return f"the run was stopped at {self.now_ns} ns"


class FingerprintError(TactusError):
    """A worker of a sweep was built from other sources, so its results would differ."""


class InternalError(FailedRun):
    """A defect of Tactus."""
