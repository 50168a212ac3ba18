"""The stage of the demo: an embedded Valkey, a cluster, and the processes between them."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import yaml

from distq.cli.demo.controller import RESOURCE
from distq.cli.demo.journal import Entry, read_journal
from distq.client.client import Client
from distq.errors import DistqError, NotFound
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing.apiserver import EmulatedApiServer
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.guard import Guard
from distq.wording import counted

NAMESPACE = "distq-demo"
TARGET = "distq.cli.demo.controller"
_STOP_WITHIN = 15.0


class Stage:
    """A context with all servers started; ``kubeconfig`` None means the emulated cluster."""

    client: Client
    redis: Connection
    inspector: Inspector

    def __init__(self, kubeconfig: str | None) -> None:
        self._kubeconfig = kubeconfig
        self._api_server: EmulatedApiServer | None = None
        self._stack = ExitStack()
        self._environment: dict[str, str] = {}
        self.processes: list[Process] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            guard = stack.enter_context(Guard("demo"))
            self._folder = guard.folder
            valkey = stack.enter_context(EmbeddedValkey(guard=guard))
            if self._kubeconfig is None:
                self._api_server = stack.enter_context(EmulatedApiServer())
                self._kubeconfig = str(self._api_server.kubeconfig(self._folder / "kubeconfig"))
            self.redis = Connection(valkey.url)
            stack.callback(self.redis.close)
            self.inspector = Inspector(self.redis)
            self.client = Client(self._kubeconfig)
            self._environment = guard.environment | {
                "DISTQ_REDIS_URL": valkey.url,
                "KUBECONFIG": self._kubeconfig,
                "DISTQ_LEASE_NAME": "distq-demo",
                "DISTQ_LEASE_NAMESPACE": NAMESPACE,
                "DISTQ_LEASE_DURATION": "4",
                "DISTQ_RENEW_DEADLINE": "3",
                "DISTQ_RETRY_PERIOD": "1",
            }
            self._furnish(stack)
            stack.callback(self.stop_all)  # added last, so done first: before their servers end
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def start(self, name: str, *command: str) -> "Process":
        """Start a process that runs the demo's controller."""
        process = Process(name, self._folder, self._environment, *command)
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
        return ", ".join([*counts, "Valkey" if self._api_server is None else "Valkey, the API server"])

    def stop_all(self) -> None:
        """Stop all processes, in their own time."""
        for process in self.processes:
            process.stop()
        for process in self.processes:
            process.wait(_STOP_WITHIN)

    def full_lists(self, since: float, until: float) -> int:
        """Return how often all objects were listed between two Unix times; 0 on a cluster of your own."""
        if self._api_server is None:
            return 0
        return sum(
            request.full_list and request.path.endswith("/foos") and since <= request.time < until
            for request in list(self._api_server.requests)  # a copy: the server's thread adds to it
        )

    def _furnish(self, stack: ExitStack) -> None:
        """Add the CRD and a namespace to the cluster; what was not there before goes at the end."""
        definition = yaml.safe_load((Path(__file__).parent / "foo-crd.yaml").read_text())
        namespace: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        for obj in (definition, namespace):
            resource, name = f"{obj['apiVersion']}/{obj['kind']}", obj["metadata"]["name"]
            if self.client.get(resource, name) is None:
                self.client.create(obj)
                stack.callback(self.client.delete, resource, name)
        self._wait_until_served()

    def _wait_until_served(self) -> None:
        deadline = time.monotonic() + 15
        while True:
            try:
                next(self.client.list(RESOURCE, NAMESPACE), None)
            except NotFound:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return


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
