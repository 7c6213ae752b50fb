"""Policies in Python: the choice of the entity that runs next, and of the end of its time slice.

A policy in Python is run by the same machine, under the same laws, as a policy in Rust. It is meant for teaching and for
first ideas: each call crosses from Rust to Python, so a run takes 3 to 100 times as long as under a policy in Rust.

Entities are integers. An integer is reused after its entity has been detached. All times are in nanoseconds. A
:class:`Context` is valid only during the call that receives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ._native import Context
from .errors import InputError


class Params(NamedTuple):
    """The parameters of an entity."""

    weight: int
    """Relative share of CPU time; 1024 is normal. Range: 1 to 2**28."""
    slice_ns: int | None
    """CPU time per period of the reservation; ``None`` without a reservation."""
    period_ns: int | None
    """Length of a period of the reservation; ``None`` without a reservation."""
    start_ns: int | None
    """Start of the first period; ``None``: the first wake-up."""
    latency_ns: int | None
    """Wake-up latency that the entity tolerates; ``None``: the policy decides."""
    group: int
    """Group of the entity; 0 is the root."""


class Refused(Exception):
    """Raised by :meth:`Policy.attach` and :meth:`Policy.adjust`: the policy cannot meet the request."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason = reason
        self.remedy = remedy
        super().__init__(reason, remedy)


def name_of(policy: str | Callable[[], Policy] | None) -> str | None:
    """Return the name of ``policy``: a name, a class, or a function that makes an object of a class."""
    if policy is None or isinstance(policy, str):
        return policy
    if not callable(policy):
        raise InputError([("", f"{policy!r} is not a policy", "use a name, or a class derived from tactus_sched.Policy")])
    made = policy if isinstance(policy, type) else type(policy())
    name = getattr(made, "name", made.__name__)
    return name if isinstance(name, str) else made.__name__


def params(cx: Context, entity: int) -> Params:
    """Return the parameters of ``entity``."""
    return Params(*cx._params(entity))


class Policy:
    """A scheduling policy. Derive from this class, and pass the class to :func:`tactus_sched.run`.

    The machine makes one object per host, by a call of the class without arguments. It reports facts to the object and
    requests decisions, in this order for an entity:

    ``attach``, then any number of times ``wake``, ``pick``, ``charge`` and ``put``, then ``detach``. After ``wake``, and
    after ``put`` with a reason other than ``"blocked"``, the entity waits until ``pick`` returns it or ``sleep`` removes
    it.

    A policy must not use clocks, randomness or input and output, so that equal runs stay equal.
    """

    name: str

    def start(self, cpus: int) -> None:
        """Begin on a machine with this number of CPUs."""

    def attach(self, entity: int, cx: Context) -> None:
        """Add ``entity``, which is blocked. Raise :class:`Refused` if the policy cannot meet its request."""

    def detach(self, entity: int, cx: Context) -> None:
        """Remove ``entity``, which is blocked. No later call mentions it."""

    def adjust(self, entity: int, cx: Context) -> None:
        """Apply the changed parameters of ``entity``, which may be in any state. May raise :class:`Refused`."""

    def wake(self, entity: int, why: str, cx: Context) -> None:
        """Enqueue ``entity``, which was blocked and now waits.

        ``why`` is ``"new"``, ``"by"``, ``"by-sync"``, ``"interrupt"``, ``"timer"`` or ``"resumed"``.
        """
        raise NotImplementedError

    def event(self, entity: int, what: str, cx: Context) -> None:
        """Record an event for ``entity``, which is not blocked: ``"interrupt"`` or ``"spin-wait"``."""

    def sleep(self, entity: int, cx: Context) -> None:
        """Dequeue ``entity``, which waited and is now blocked."""
        raise NotImplementedError

    def charge(self, entity: int, ran: int, cx: Context) -> None:
        """Charge the running ``entity`` for ``ran`` nanoseconds of CPU time since the last charge."""

    def yield_to(self, entity: int, to: int, cx: Context) -> bool:
        """Handle a yield of the running ``entity`` to the entity ``to``. Return whether ``to`` will run."""
        return False

    def alarm(self, owner: str, index: int, slot: int, cx: Context) -> None:
        """Handle an alarm that :meth:`Context.set_alarm` has set. The alarm may be late."""

    def plan(self, cx: Context) -> None:
        """Decide for several CPUs together, once per instant, before any :meth:`pick`. May kick further CPUs."""

    def put(self, cpu: int, entity: int, why: str, cx: Context) -> None:
        """Take back ``entity``, which has just stopped running on ``cpu``.

        With ``"blocked"``, the entity is blocked. With ``"yielded"``, ``"expired"`` or ``"kicked"``, it waits again.
        """
        raise NotImplementedError

    def pick(self, cpu: int, cx: Context) -> int | tuple[int, int | None] | None:
        """Return the entity that ``cpu`` runs now, or the entity and the end of its time slice.

        The entity must wait, must not be held, and must be allowed on ``cpu``. ``None``: the CPU idles.
        """
        raise NotImplementedError
