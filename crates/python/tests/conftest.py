"""Paths that the tests need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return Path(os.environ.get("TACTUS_ROOT", Path(__file__).parents[3]))


@pytest.fixture(scope="session")
def command() -> str:
    """The command `tactus`."""
    path = os.environ.get("TACTUS_COMMAND")
    if path is None:
        pytest.skip("TACTUS_COMMAND does not name the command")
    return path
