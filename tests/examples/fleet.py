"""Informers and workers of an example, as they are deployed, with the rights that they were given."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import yaml

from distq import Inspector
from distq.leaderelection import LeaseLock
from distq.testing import Sandbox
from distq.testing.apiserver import EmulatedApiServer
from tests import ROOT
from tests.examples import holding
from tests.support.api_servers import write_kubeconfig
from tests.support.eventually import eventually
from tests.support.programs import start_program

LEASE = {"DISTQ_LEASE_DURATION": "300", "DISTQ_RENEW_DEADLINE": "240", "DISTQ_RETRY_PERIOD": "0.5"}
"""So long that no busy machine loses it; that of a killed leader is ended by hand."""
NAMESPACE = "default"
PATIENCE = 90.0


class Fleet:
    """A context that kills its processes at its end; ``module`` is the example's with short claims.

    On a real API server each side has a service account with what ``distq manifests`` grants it.
    """

    def __init__(self, sandbox: Sandbox, example: str, module: str, folder: Path, *rights: str) -> None:
        self.inspector = Inspector(sandbox.redis)
        self._sandbox = sandbox
        self._name = f"distq-{example.replace('.', '-').replace('_', '-')}"
        self._module = module
        self._folder = folder
        self._hold = folder / "hold"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._governed = not isinstance(sandbox.api_server, EmulatedApiServer)
        if self._governed:
            manifests = print_manifests(example, *rights)
            sandbox.apply(*(each for each in manifests if "rbac" in each["apiVersion"]))
            sandbox.apply(*(each for each in manifests if each["kind"] == "ServiceAccount"))

    def hold(self) -> None:
        """Let ``worker-1`` hang after a few writes more."""
        self._hold.touch()

    def start(self, command: str, number: int) -> str:
        """Start an informer or a worker, and return its name."""
        name = f"{command}-{number}"
        settings = {
            **self._sandbox.environment,
            **LEASE,
            "DISTQ_LEASE_NAME": self._name,
            "DISTQ_LEASE_NAMESPACE": NAMESPACE,
            "DISTQ_CONCURRENCY": "1",
        }
        if name == "worker-1":
            settings[holding.VARIABLE] = str(self._hold)
        if self._governed:
            settings["KUBECONFIG"] = str(self._kubeconfig(command))
        arguments = ["distq", command, self._module]
        self._processes[name] = start_program(arguments, self._folder / name, settings)
        return name

    def start_informers(self) -> None:
        """Start two informers, of which the first leads."""
        first = self.start("informer", 1)
        self.until(lambda: "leading" in self.log(first), "the first informer leads")
        second = self.start("informer", 2)
        self.until(lambda: "the leader is" in self.log(second), "the second competes")

    def kill(self, name: str) -> None:
        """SIGKILL a process."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def kill_leader(self, name: str) -> None:
        """SIGKILL the leader, and release its lease, so that the other informer leads."""
        self.kill(name)
        self.release_lease()

    def release_lease(self) -> None:
        """Release the lease of a leader that was killed, as if it had ended by now."""
        lock = LeaseLock(self._sandbox.client, NAMESPACE, self._name)
        record = lock.get(timeout=PATIENCE)
        assert record is not None
        released = replace(record, holder_identity="", lease_duration=1, acquire_time=record.renew_time)
        lock.update(released, timeout=PATIENCE)

    def log(self, name: str) -> str:
        """Return what a process has said so far."""
        return (self._folder / name / "log").read_text(errors="replace")

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Return once the condition holds; fail where it takes too long, or a process ends by itself."""

        def holds() -> object:
            fell = [name for name, process in self._processes.items() if process.poll() is not None]
            assert not fell, f"{fell} ended before {what}"
            return condition()

        eventually(holds, what, timeout=PATIENCE)

    def is_at_rest(self, queue: str) -> bool:
        """Return whether the queue has no item in any state."""
        return not list(self.inspector.items(queue))

    def refusals(self) -> list[str]:
        """Return what the processes said of rights that they lack."""
        logs = [path.read_text(errors="replace") for path in self._folder.glob("*/log")]
        return [line for log in logs for line in log.splitlines() if " 403 " in line]

    def _kubeconfig(self, component: str) -> Path:
        """Return a kubeconfig with a token that the API server gave for a component's service account."""
        server = self._sandbox.api_server
        assert not isinstance(server, EmulatedApiServer)
        account = f"{self._name}-{component}"
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = json.loads(self._sandbox.client.request("POST", path, body=body))["status"]["token"]
        cluster = {"server": server.url, "certificate-authority": str(server.certificate_authority)}
        file = self._folder / f"{account}.kubeconfig"
        write_kubeconfig(file, cluster=cluster, user={"token": token})
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._processes):
            self.kill(name)
            sys.stderr.write(f"--- {name}\n{self.log(name)[-3000:]}\n")


def print_manifests(example: str, *rights: str) -> list[dict[str, Any]]:
    """Return what ``distq manifests`` prints for an example; ``rights`` are its options for them."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("DISTQ_", "KUBE"))}
    done = subprocess.run(
        [sys.executable, "-m", "distq", "manifests", example, "--image", "examples:1", *rights],
        cwd=ROOT,
        env=own,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return list(yaml.safe_load_all(done.stdout))
