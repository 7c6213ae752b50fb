"""The REST interface against its own description, by schemathesis, and the metrics, by the parser of Prometheus' client.

The service has no core: what is set waits, and no process of this machine is changed.
"""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import schemathesis
from prometheus_client.openmetrics.parser import text_string_to_metric_families

# Paths whose replies come after a requested time, each with a right length and a wrong one. Unit: ms.
TIMED = {"/v1/vms/{vm}/observation": (10, 9), "/v1/timeline": (20, 19), "/v1/demand": (100, 99)}
# Paths whose replies have no end.
STREAMS = ("/v1/events", "/v1/live")
Soon = Callable[[str, Callable[[], bool]], None]


def listening(command: str, where: Path, soon: Soon) -> tuple[subprocess.Popen[bytes], str]:
    """Start a service that listens for clients with certificates, and return it with its URL."""

    def run(*words: str) -> None:
        subprocess.run([command, *words], cwd=where, check=True, stdout=subprocess.DEVNULL)

    run("certs", "init", "--name", "localhost", "--name", "127.0.0.1", "--certs", "certs")
    run("certs", "issue", "tester", "--role", "admin", "--certs", "certs")
    options = ["--socket", "api.sock", "--state", "state", "--core", "none.sock", "--labels", "labels"]
    options += ["--libvirt", "libvirt", "--listen", "127.0.0.1:0", "--certs", "certs"]
    messages = where / "messages"
    with messages.open("w") as file:
        service = subprocess.Popen([command, "serve", *options], cwd=where, stderr=file)
    soon("the service listens", lambda: "serving at" in messages.read_text())
    address = messages.read_text().split(" and ")[1].split(";")[0]
    return service, f"https://{address}"


def test_replies_are_as_openapi_describes_them_and_the_metrics_are_openmetrics(
    command: str, tmp_path: Path, vm_named: Callable[[str], AbstractContextManager[int]], soon: Soon
) -> None:
    with vm_named("vm 1"):
        service, url = listening(command, tmp_path, soon)
        try:
            files = {name: str(tmp_path / "tester" / name) for name in ("authority.pem", "client.pem", "client.key")}
            check = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--url", url]
            check += ["--tls-verify", files["authority.pem"]]
            check += ["--request-cert", files["client.pem"], "--request-cert-key", files["client.key"]]
            # An observation may take 30 s. A right request may be out of date, or name no VM.
            check += [word for path in (*STREAMS, *TIMED) for word in ("--exclude-path", path)]
            check += ["--exclude-checks", "positive_data_acceptance"]
            # Without --generation-deterministic, each run sends other requests.
            check += ["--max-examples", "30", "--generation-deterministic", "--no-color"]
            done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            generated = re.search(r"(\d+) generated", done.stdout)
            assert generated and int(generated[1]) >= 200, done.stdout

            tls: dict[str, Any] = {"verify": files["authority.pem"], "cert": (files["client.pem"], files["client.key"])}
            described = schemathesis.openapi.from_url(f"{url}/openapi.json", **tls)
            for path, (right, wrong) in TIMED.items():
                names = {"vm": "vm%201"} if "{vm}" in path else {}
                for length, status in ((right, 200), (wrong, 400)):
                    case = described[path]["GET"].Case(path_parameters=names, query={"length_ms": length})
                    assert case.call_and_validate(**tls).status_code == status, path

            context = ssl.create_default_context(cafile=files["authority.pem"])
            context.load_cert_chain(files["client.pem"], files["client.key"])
            with urlopen(f"{url}/metrics", context=context) as reply:
                families = list(text_string_to_metric_families(reply.read().decode()))
            phases = next(family for family in families if family.name == "tactus_vm_phase")
            assert "vm 1" in {sample.labels["name"] for sample in phases.samples}
        finally:
            service.terminate()
            assert service.wait(20) == 0, (tmp_path / "messages").read_text()
