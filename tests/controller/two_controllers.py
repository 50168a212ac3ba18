"""Two controllers of one process that watch the ConfigMaps of a namespace alike.

    python -m tests.controller.two_controllers KUBECONFIG REDIS NAMESPACE JOURNAL

runs their informers; each list and watch of ConfigMaps is a line of the journal.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from distq.client import Client
from distq.client.raw import WatchResponse
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import For, ResourceWatch
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue

QUEUES = ("foos", "bars")
SETTINGS = {"lease_name": "two", "lease_duration": 4.0, "renew_deadline": 3.0, "retry_period": 0.5}


class NotingClient(Client):
    """A Client that records the lists and watches of ConfigMaps that it asks the API server for."""

    def __init__(self, kubeconfig: Path, note: Callable[[str], None]) -> None:
        super().__init__(kubeconfig, timeout=5.0)
        self._note = note

    def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, **rest: Any
    ) -> bytes:
        """Note ``version`` or ``list``."""
        if method == "GET" and path.endswith("/configmaps"):
            self._note("version" if query and query.get("limit") == "1" else "list")
        return super().request(method, path, query=query, **rest)

    def stream(self, path: str, *, query: Mapping[str, str], **rest: Any) -> WatchResponse:
        """Note ``watch``."""
        if path.endswith("/configmaps"):
            self._note("watch")
        return super().stream(path, query=query, **rest)


def controllers(watches: Sequence[ResourceWatch], connections: Mapping[str, Connection]) -> list[Controller]:
    """Return a controller for each queue, with the watch of its own."""
    return [
        Controller(Queue(queue, connections[queue]), print, watches=[watch])
        for queue, watch in zip(QUEUES, watches, strict=True)
    ]


def main() -> None:
    """Run the informers."""
    kubeconfig, redis, namespace, journal = sys.argv[1:]

    def note(what: str) -> None:
        with Path(journal).open("a") as file:
            file.write(f"{what}\n")

    connection = Connection(redis)
    manager = Manager(
        controllers([For("v1/ConfigMap", namespaces=[namespace])] * 2, dict.fromkeys(QUEUES, connection)),
        redis=connection,
        client=NotingClient(Path(kubeconfig), note),
        settings=Settings(lease_namespace=namespace, **SETTINGS),  # type: ignore[arg-type]  # each of its own type
    )
    manager.run(workers=False)


if __name__ == "__main__":
    main()
