"""The stage of the demo: an embedded Valkey, a cluster, and the processes between them."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from distq.cli.demo.journal import Entry, read_journal
from distq.errors import DistqError
from distq.inspector import Inspector
from distq.testing.apiserver import EmulatedApiServer
from distq.testing.apiserver.manifests import read_manifest
from distq.testing.sandbox import Sandbox
from distq.wording import counted

NAMESPACE = "distq-demo"
TARGET = "distq.cli.demo.controller"
_STOP_WITHIN = 15.0
_ELECTION = {
    "DISTQ_LEASE_NAME": "distq-demo",
    "DISTQ_LEASE_NAMESPACE": NAMESPACE,
    "DISTQ_LEASE_DURATION": "4",
    "DISTQ_RENEW_DEADLINE": "3",
    "DISTQ_RETRY_PERIOD": "1",
}


class Stage(Sandbox):
    """A sandbox with the demo's processes; ``kubeconfig`` None means the emulated cluster."""

    inspector: Inspector

    def __init__(self, kubeconfig: str | None) -> None:
        super().__init__()
        self._kubeconfig = kubeconfig
        self.processes: list[Process] = []

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._furnish()
        except BaseException:
            self.__exit__()
            raise
        self.inspector = Inspector(self.redis)
        self._stack.callback(self.stop_all)  # added last, so done first: before their servers end
        return self

    def _start_api_server(self, stack: ExitStack) -> Path:
        return Path(self._kubeconfig) if self._kubeconfig else super()._start_api_server(stack)

    def start(self, name: str, *command: str) -> "Process":
        """Start a process that runs the demo's controller."""
        environment = self.guard.environment | self.environment | _ELECTION
        process = Process(name, self.guard.folder, environment, *command)
        self.processes.append(process)
        return process

    def require_alive(self) -> None:
        """Raise DistqError when a process ended by itself."""
        for process in self.processes:
            if not process.alive and process.killed_at is None:
                raise DistqError(f"{process.name} ended by itself: {process.last_words()}")

    def what_runs(self) -> str:
        """Return in words what is stopped when the stage is left."""
        roles = Counter(process.role for process in self.processes if process.alive)
        counts = [counted(count, role) for role, count in roles.items()]
        return ", ".join([*counts, "Valkey" if self._kubeconfig else "Valkey, the API server"])

    def stop_all(self) -> None:
        """Stop all processes, in their own time."""
        for process in self.processes:
            process.stop()
        for process in self.processes:
            process.wait(_STOP_WITHIN)

    def full_lists(self, since: float, until: float) -> int:
        """Return how often all objects were listed between two Unix times; 0 on a cluster of your own."""
        if self._kubeconfig or not isinstance(self.api_server, EmulatedApiServer):
            return 0
        return sum(
            request.full_list and request.path.endswith("/foos") and since <= request.time < until
            for request in list(self.api_server.requests)  # a copy: the server's thread adds to it
        )

    def _furnish(self) -> None:
        """Add the CRD and a namespace to the cluster; what was not there before goes at the end."""
        for _, obj in read_manifest(Path(__file__).with_name("foos.yaml")):
            resource, name = f"{obj['apiVersion']}/{obj['kind']}", obj["metadata"]["name"]
            if self.client.get(resource, name) is None:
                self.apply(obj)
                self._stack.callback(self.client.delete, resource, name)


class Process:
    """A distq command in a process of its own, started as anyone would; log and journal are in ``folder``."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str], *command: str) -> None:
        self.name = name
        self.role = command[0]
        self.killed_at: float | None = None
        self._folder = folder
        with (folder / f"{name}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "distq", *command, TARGET, "--log-format", "json"],
                cwd=folder,
                # without settings of the caller's, which may lead to another Redis
                env={name: value for name, value in os.environ.items() if not name.startswith("DISTQ_")}
                | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the demo, which stops them in order
            )

    @property
    def alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL it and wait until it is dead."""
        self._process.kill()
        self._process.wait()
        self.killed_at = time.monotonic()

    def kill_in_mid_reconcile(self) -> None:
        """Kill it while it reconciles something, or after 3 s without."""
        deadline = time.monotonic() + 3.0
        while True:
            self._process.send_signal(signal.SIGSTOP)  # nothing ends between the look and the kill
            running = any(entry.end is None for entry in read_journal(self._folder, self._process.pid))
            if running or time.monotonic() > deadline:
                self.kill()
                return
            self._process.send_signal(signal.SIGCONT)
            time.sleep(0.01)

    def stop(self) -> None:
        """Send it SIGTERM, unless it has ended."""
        if self.alive:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout: float) -> int:
        """Return its exit status; kill it when it does not stop in time."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def journal(self) -> list[Entry]:
        """Return what it reconciled; what a killed process had begun ended with it."""
        entries = read_journal(self._folder, self._process.pid)
        for entry in entries:
            entry.end = entry.end or self.killed_at
        return entries

    def says_follower(self) -> bool:
        """Return whether an informer's log shows that it competes for the lease."""
        return b"wants to lead" in (self._folder / f"{self.name}.log").read_bytes()

    def last_words(self) -> str:
        """Return the last thousand letters of its log."""
        return (self._folder / f"{self.name}.log").read_text(errors="replace")[-1000:].strip()
