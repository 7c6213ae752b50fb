"""The client of the service, with a service that has no core: what is set is stored, and waits for a core."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tactus_sched import Service, ServiceError, TactusError
from tactus_sched.service import default_socket


Soon = Callable[[str, Callable[[], bool]], None]


@pytest.fixture
def service(serving: Callable[[Path], AbstractContextManager[Service]], tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path) as service:
        yield service


@pytest.fixture
def vm(vm_named: Callable[[str], AbstractContextManager[int]]) -> Iterator[int]:
    """The pid of a VM with the name `vm 1`."""
    with vm_named("vm 1") as pid:
        yield pid


def test_what_is_set_is_read_again_and_waits_for_a_core(service: Service, vm: int, soon: Soon) -> None:
    soon("the VM is found", lambda: any(it["name"] == "vm 1" for it in service.vms()))
    shown = service.vm("vm 1")
    assert (shown["kind"], shown["process"]["pid"], shown["generation"]) == ("qemu", vm, 0)
    assert (shown["process"]["user"], shown["state"]["phase"]) == (os.getuid(), "none")
    made = service.set("vm 1", slice_ns=2_000_000, period_ns=10_000_000, reason="a test")
    assert (made["generation"], made["state"]["phase"]) == (1, "waiting")
    assert "none.sock" in made["state"]["reason"]
    # Only what is named changes.
    changed = service.set("vm 1", slice_ns=3_000_000, weight=50)
    promise = changed["desired"]["promise"]
    assert (promise["slice_ns"], promise["period_ns"], changed["desired"]["weight"]) == (3_000_000, 10_000_000, 50)
    assert service.vm("vm 1") == changed
    assert service.set("vm 1", paused=True)["state"]["phase"] == "paused"
    assert service.unset("vm 1")["state"]["phase"] == "none"
    assert service.host()["mechanisms"] == []


def test_refusals_have_a_status_a_reason_and_a_remedy(service: Service, vm: int) -> None:
    name = f"pid:{vm}"
    with pytest.raises(ServiceError) as missing:
        service.vm("no such/VM?")
    assert missing.value.status == 404 and "no such/VM?" in str(missing.value) and missing.value.remedy
    with pytest.raises(ServiceError, match="at most 10ms") as long:
        service.set(name, slice_ns=20_000_000, period_ns=10_000_000)
    assert long.value.status == 422
    with pytest.raises(ServiceError, match="missing field `period_ns`"):
        service.set(name, slice_ns=1_000_000)
    with pytest.raises(ServiceError) as outdated:
        service.put(name, {"weight": 5}, generation=7)
    assert outdated.value.status == 412 and isinstance(outdated.value, TactusError)
    assert service.vm(name)["generation"] == 0, "nothing has changed"


def test_an_observation_has_the_threads_of_the_vm(service: Service, vm: int, soon: Soon) -> None:
    soon("the VM is found", lambda: any(it["name"] == "vm 1" for it in service.vms()))
    observation = service.observe("vm 1", 0.05)
    assert observation["length_ns"] >= 50_000_000
    assert [thread["tid"] for thread in observation["threads"]] == [vm]
    with pytest.raises(ServiceError, match="10 to 30000"):
        service.observe("vm 1", 31)


def test_two_clients_that_change_a_vm_lose_no_change(service: Service, vm: int) -> None:
    name = f"pid:{vm}"
    service.set(name, weight=1)
    threads = [
        threading.Thread(target=lambda: service.set(name, weight=7)),
        threading.Thread(target=lambda: service.set(name, cap_percent=40)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    desired = service.vm(name)["desired"]
    assert (desired["weight"], desired["cap_percent"]) == (7, 40)


def test_events_are_resumed_after_a_number(service: Service, vm: int, soon: Soon) -> None:
    name = f"pid:{vm}"
    following = service.events(after=0)
    assert next(following)["event"] == "gap"
    soon("the VM is found", lambda: any(it["name"] == "vm 1" for it in service.vms()))
    service.set(name, weight=7)
    seen = [next(following)]
    while seen[-1]["event"] != "changed":
        seen.append(next(following))
    assert [event["number"] for event in seen] == list(range(seen[0]["number"], seen[-1]["number"] + 1))
    assert seen[-1]["desired"]["weight"] == 7 and seen[-1]["vm"] == "vm 1"
    following.close()
    again = service.events(after=seen[-1]["number"] - 1)
    assert next(again) == seen[-1]
    again.close()


def test_a_service_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Service(tmp_path / "nothing.sock").vms()


def test_the_default_socket_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACTUS_SOCKET", "/somewhere/api.sock")
    assert default_socket() == Path("/somewhere/api.sock") == Service().socket
    assert repr(Service("x.sock")) == "Service('x.sock')"
    monkeypatch.delenv("TACTUS_SOCKET")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
    assert default_socket() == Path("/run/tactus.sock")
