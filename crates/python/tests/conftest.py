"""Paths, services and processes that the tests need."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tactus_sched import Service


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


@pytest.fixture(scope="session")
def serving(command: str) -> Callable[[Path], AbstractContextManager[Service]]:
    """A function that starts a service without a core, with its files in a directory."""

    @contextlib.contextmanager
    def start(where: Path) -> Iterator[Service]:
        options = ["--socket", "api.sock", "--state", "state", "--core", "none.sock"]
        process = subprocess.Popen([command, "serve", *options], cwd=where, stderr=subprocess.DEVNULL)
        try:
            service = Service(where / "api.sock")
            wait_until("the service answers", lambda: answers(service))
            yield service
        finally:
            process.terminate()
            assert process.wait(20) == 0

    return start


@pytest.fixture(scope="session")
def vm_named() -> Callable[[str], AbstractContextManager[int]]:
    """A function that starts a process with the command line of a VM with this name, and returns its pid."""

    @contextlib.contextmanager
    def start(name: str) -> Iterator[int]:
        words = ["qemu-system-x86_64", "-c", "import time; time.sleep(600)", "-name", f"guest={name},debug-threads=on"]
        process = subprocess.Popen(words, executable=sys.executable)
        try:
            yield process.pid
        finally:
            process.kill()
            process.wait()

    return start


def answers(service: Service) -> bool:
    """Return whether the service answers. Its socket has a path before it accepts connections."""
    try:
        service.host()
    except OSError:
        return False
    return True


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    """Wait for at most 20 s until ``is_so`` returns true."""
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@pytest.fixture(scope="session")
def soon() -> Callable[[str, Callable[[], bool]], None]:
    """The function :func:`wait_until`."""
    return wait_until
