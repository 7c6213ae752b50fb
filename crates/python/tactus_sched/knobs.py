"""Knobs and seeds as the native module takes them."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from . import _native
from .errors import InputError
from .policy import Policy

Knobs = Mapping[str, str | int | bool]
"""Knobs of a policy by name: ``{"slice": "5ms", "enforce": "hard"}``."""

SEED_MOST = 2**64 - 1
"""Greatest seed."""


def settings(knobs: Knobs | None) -> list[str]:
    """Return the settings as ``NAME=VALUE``."""

    def text(value: str | int | bool) -> str:
        if isinstance(value, bool):
            return "on" if value else "off"
        return str(value)

    return [f"{name}={text(value)}" for name, value in (knobs or {}).items()]


@lru_cache(maxsize=1)
def _knobs_of_policies() -> dict[str, set[str]]:
    listed: list[dict[str, Any]] = json.loads(_native.policies())
    return {policy["name"]: {knob["name"] for knob in policy["knobs"]} for policy in listed}


def settings_for(
    policy: str | Callable[[], Policy] | None,
    knobs: Knobs | None,
    policies: Iterable[str | Callable[[], Policy] | None],
) -> list[str]:
    """Return the settings of ``policy``, one of ``policies``. A knob applies to the policies that have it.

    A knob that none of the policies has is a setting of each, so that the native module refuses it.
    """
    known = _knobs_of_policies()
    names = [name for name in policies if isinstance(name, str)]
    if not isinstance(policy, str) or policy not in known or len(names) < 2:
        return settings(knobs)
    own = known[policy]
    of_others = {knob for name in names for knob in known.get(name, ())}
    return settings({name: value for name, value in (knobs or {}).items() if name in own or name not in of_others})


def seed_of(seed: Any) -> int:
    """Return ``seed`` as an integer. Raises :class:`InputError` if it is not a whole number from 0 to 2**64 - 1."""
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if not 0 <= number <= SEED_MOST:
        raise InputError([("", f"the seed {seed!r} is not valid", f"use a whole number from 0 to {SEED_MOST}")])
    return number
