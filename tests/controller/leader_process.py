"""A leader in a process of its own, which strikes itself down at the worst moment.

Start it by ``struck_down`` and read what became of its commit from its standard output.
"""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distq.client import Client
from distq.client.objects import Object
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.stream_source import StreamSource
from distq.controller.term_work import Term
from distq.controller.watches import For, ResourceWatch, Watches, identities
from distq.informer import pager
from distq.leaderelection import LeaderElectionConfig, LeaderElector, LeaseLock
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from tests import ROOT
from tests.controller.leading import QUEUE, Scene

LEASE = "distq-foos"
LEASE_DURATION = 3.0
PAGE_SIZE = 2
TIMEOUT = 30.0  # seconds


def many_keys(obj: Object) -> list[str]:
    """Return as many keys as a ConfigMap says."""
    return [f"key-{number}" for number in range(int(obj["data"]["count"]))]


def watch_of(resource: str) -> ResourceWatch:
    """Return what the process watches: ConfigMaps for many keys each, anything else for its own."""
    return Watches(resource, many_keys) if resource == "v1/ConfigMap" else For(resource)


def compete(scene: Scene, watch: ResourceWatch, stop: threading.Event) -> None:
    """Compete for the Lease, and feed the queue while leading."""

    def lead(over: threading.Event) -> None:
        term = Term(elector, over)
        config = SourceConfig(queue=QUEUE, connection=scene.connection, client=client, leadership=term)
        (identity,) = identities([watch])
        StreamSource(watch, config, identity=identity, namespace=scene.namespace).run(over)

    client = Client(scene.kubeconfig)
    elector = LeaderElector(
        LeaderElectionConfig(
            lock=LeaseLock(client, scene.namespace, LEASE),
            on_started_leading=lead,
            on_stopped_leading=lambda: None,
            lease_duration=LEASE_DURATION,
            renew_deadline=LEASE_DURATION - 1,
            retry_period=0.5,
        )
    )
    elector.run(stop)


@contextmanager
def struck_down(
    scene: Scene, redis_url: str, resource: str, by: signal.Signals, *, at: int
) -> Iterator[subprocess.Popen[str]]:
    """Run a leader that sends itself a signal just before its commit of keys number ``at``, counted from 1.

    All questions are asked by then, and the commit is on its way.
    """
    task = {
        "kubeconfig": str(scene.kubeconfig),
        "redis": redis_url,
        "namespace": scene.namespace,
        "resource": resource,
        "signal": int(by),
        "at": at,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", "from tests.controller.leader_process import main; main()", json.dumps(task)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def main() -> None:
    """Lead until the term ends, or the signal comes."""
    task = json.loads(sys.argv[1])
    vars(pager)["PAGE_SIZE"] = PAGE_SIZE
    answered = threading.Event()
    _strike(signal.Signals(task["signal"]), task["at"], answered)
    scene = Scene(Path(task["kubeconfig"]), Connection(task["redis"]), task["namespace"])
    compete(scene, watch_of(task["resource"]), threading.Event())
    answered.wait(TIMEOUT)  # the end of the term may be noticed before


def _strike(by: signal.Signals, at: int, answered: threading.Event) -> None:
    commit, commits = StreamStore.commit, list[int]()

    def struck(store: StreamStore, change: Commit) -> Any:
        if change.keys:
            commits.append(1)
        if not change.keys or len(commits) != at:
            return commit(store, change)
        print("now", flush=True)  # noqa: T201 - for the test
        signal.pthread_kill(
            threading.get_ident(), by
        )  # to the process, this thread would run a little further
        answer = commit(store, change)
        print(type(answer).__name__, flush=True)  # noqa: T201 - for the test
        answered.set()
        return answer

    StreamStore.commit = struck  # type: ignore[assignment, method-assign]  # it takes what commit takes
