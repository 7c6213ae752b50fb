"""A client of ``tactus serve``, the service that keeps promises to the VMs of a host.

>>> from tactus_sched.service import Service
>>> service = Service()
>>> service.set("vm1", slice_ns=2_000_000, period_ns=10_000_000)
>>> [(vm["name"], vm["state"]["phase"]) for vm in service.vms()]

The dictionaries are those of the interface (docs/operate.md). All times are in nanoseconds, unless the name has another
unit.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypedDict
from urllib.parse import quote

from .errors import TactusError

ATTEMPTS = 5
"""Number of attempts to change a VM that other clients change, too."""
OUTDATED = 412
"""HTTP status: another client has changed the VM."""


class Promise(TypedDict, total=False):
    """CPU time in every period."""

    slice_ns: int
    period_ns: int
    cpus: int
    gang: bool
    limit: Literal["soft", "hard"]
    mechanism: Literal["auto", "inherit", "fifo", "deadline"]


class Desired(TypedDict, total=False):
    """What is desired for a VM."""

    promise: Promise
    weight: int
    cap_percent: int
    paused: bool


class Process(TypedDict):
    """The process of a VM."""

    pid: int
    start_time: int
    user: int


class State(TypedDict, total=False):
    """Whether the desired state is in force (``phase``), and the reason if it is not."""

    phase: Literal["none", "kept", "not-kept", "refused", "paused", "absent", "waiting"]
    mechanism: str
    reason: str
    remedy: str


class Measured(TypedDict):
    """Measurements of a promise since it was last put in force."""

    periods: int
    judged: int
    missed: int
    due_ns: int
    delivered_ns: int
    lost: int


class _Vm(TypedDict):
    id: str
    name: str
    kind: Literal["qemu", "firecracker", "cloud-hypervisor", "process", "simulated"]
    generation: int
    desired: Desired
    state: State
    measured: Measured


class Vm(_Vm, total=False):
    """A virtual machine. Without ``process``, it does not run. Without ``source``, nothing is desired for it."""

    process: Process
    source: Literal["client", "label-file", "libvirt", "scenario"]


class ServiceError(TactusError):
    """The service refuses a request. Nothing was changed.

    ``status`` is the HTTP status. ``alternatives`` has changes that each make room for a promise that does not fit:
    ``slice_ns``, ``period_ns`` and ``end_of``, the names of other promises.
    """

    def __init__(self, status: int, detail: str, remedy: str = "", alternatives: dict[str, Any] | None = None) -> None:
        self.status = status
        self.detail = detail
        self.remedy = remedy
        self.alternatives = alternatives
        super().__init__(status, detail, remedy, alternatives)

    def __str__(self) -> str:
        return f"{self.detail}; {self.remedy}" if self.remedy else self.detail


class _Connection(http.client.HTTPConnection):
    """A connection over a Unix socket."""

    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("tactus", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def default_socket() -> Path:
    """Return the socket of ``$TACTUS_SOCKET``, of a service of this user, or else of the service of root."""
    named = os.environ.get("TACTUS_SOCKET")
    if named:
        return Path(named)
    own = Path(os.environ.get("XDG_RUNTIME_DIR", "/nonexistent")) / "tactus.sock"
    return own if os.getuid() != 0 and own.exists() else Path("/run/tactus.sock")


class Service:
    """A service on this host. Each request has a connection of its own, so threads can share an object.

    Requests raise :class:`ServiceError` if the service refuses them, and :class:`OSError` if it cannot be reached.
    """

    def __init__(self, socket: str | os.PathLike[str] | None = None, *, timeout: float = 40.0) -> None:
        """Take the Unix socket of the service (:func:`default_socket`), and the limit of a reply in seconds."""
        self.socket = default_socket() if socket is None else Path(socket)
        self.timeout = timeout

    def __repr__(self) -> str:
        return f"Service({str(self.socket)!r})"

    def host(self) -> dict[str, Any]:
        """Return the host, its core, and what may be promised."""
        host: dict[str, Any] = self._request("GET", "host")
        return host

    def vms(self) -> list[Vm]:
        """Return all VMs, by name."""
        vms: list[Vm] = self._request("GET", "vms")["vms"]
        return vms

    def vm(self, name: str) -> Vm:
        """Return the VM with an id or a name, or the process ``pid:NUMBER``."""
        vm: Vm = self._request("GET", f"vms/{quote(name, safe='')}")
        return vm

    def observe(self, name: str, seconds: float = 1.0) -> dict[str, Any]:
        """Observe the threads of a VM for 0.01 to 30 seconds: their waits, and the threads that ran instead."""
        path = f"vms/{quote(name, safe='')}/observation?length_ms={round(seconds * 1000)}"
        observation: dict[str, Any] = self._request("GET", path)
        return observation

    def put(self, name: str, desired: Desired, *, generation: int | None = None, reason: str | None = None) -> Vm:
        """Replace what is desired for a VM, if it still has ``generation``, and return the VM.

        ``reason`` is for the audit log. When this method returns, the desired state is on disk, and in force if the VM
        runs and the service has a core.
        """
        headers = {"Content-Type": "application/json"}
        if generation is not None:
            headers["If-Match"] = f'"{generation}"'
        if reason is not None:
            headers["Tactus-Reason"] = quote(reason, safe="")
        path = f"vms/{quote(name, safe='')}/desired"
        vm: Vm = self._request("PUT", path, json.dumps(desired), headers)
        return vm

    def set(
        self,
        name: str,
        *,
        slice_ns: int | None = None,
        period_ns: int | None = None,
        cpus: int | None = None,
        gang: bool | None = None,
        limit: Literal["soft", "hard"] | None = None,
        mechanism: Literal["auto", "inherit", "fifo", "deadline"] | None = None,
        weight: int | None = None,
        cap_percent: int | None = None,
        paused: bool | None = None,
        reason: str | None = None,
    ) -> Vm:
        """Change what the arguments name, as ``tactus set`` does, and return the VM.

        If another client changes the VM at the same time, the change is applied to the new state.
        """
        of_promise = {
            "slice_ns": slice_ns,
            "period_ns": period_ns,
            "cpus": cpus,
            "gang": gang,
            "limit": limit,
            "mechanism": mechanism,
        }
        of_vm = {"weight": weight, "cap_percent": cap_percent, "paused": paused}
        attempt = 0
        while True:
            vm = self.vm(name)
            desired: dict[str, Any] = {**vm["desired"], **_given(of_vm)}
            if _given(of_promise):
                desired["promise"] = {**desired.get("promise", {}), **_given(of_promise)}
            attempt += 1
            try:
                # The service checks the values.
                return self.put(vm["id"], desired, generation=vm["generation"], reason=reason)  # type: ignore[arg-type]
            except ServiceError as error:
                if error.status != OUTDATED or attempt == ATTEMPTS:
                    raise

    def unset(self, name: str, *, reason: str | None = None) -> Vm:
        """End everything that is desired for a VM, and return the VM."""
        return self.put(name, {}, reason=reason)

    def events(self, after: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield the events after number ``after``, and then each event as it happens; by default, from now on.

        Ends with the service. An event has a ``number``, ``at_ms`` since 1970-01-01 00:00 UTC, the id of a ``vm`` and the
        name ``event``: ``appeared``, ``ended``, ``changed``, ``state``, ``core``, or ``gap`` if earlier events are lost.
        """
        connection = _Connection(self.socket, None)
        try:
            headers = {} if after is None else {"Last-Event-ID": str(after)}
            connection.request("GET", "/v1/events", headers=headers)
            reply = connection.getresponse()
            if reply.status != 200:
                raise _refused(reply.status, reply.read())
            while line := reply.readline():
                if line.startswith(b"data:"):
                    yield json.loads(line.removeprefix(b"data:"))
        finally:
            connection.close()

    def _request(self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None) -> Any:
        connection = _Connection(self.socket, self.timeout)
        try:
            connection.request(method, f"/v1/{path}", body, headers or {})
            reply = connection.getresponse()
            content = reply.read()
        finally:
            connection.close()
        if reply.status != 200:
            raise _refused(reply.status, content)
        return json.loads(content)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _refused(status: int, content: bytes) -> ServiceError:
    try:
        problem = json.loads(content)
        return ServiceError(status, problem["detail"], problem.get("remedy", ""), problem.get("alternatives"))
    except (ValueError, KeyError, TypeError):
        return ServiceError(status, f"the service replied {status}")
