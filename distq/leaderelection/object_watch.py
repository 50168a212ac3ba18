"""Watch one object, so that a follower receives a renewal or a release when it happens.

It only saves time: followers ask for the record now and then anyway, and always before they take it.
"""

import json
import logging
import random
import threading
from collections.abc import Callable
from typing import Any

from distq.client.client import Client
from distq.client.objects import Object
from distq.client.raw import WatchResponse
from distq.errors import ApiError

logger = logging.getLogger(__name__)

READ_TIMEOUT = 75.0  # seconds; bookmarks come each minute
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between connections


class ObjectWatch:
    """Call ``on_object`` from a thread with the object as it is and as it becomes, until closed."""

    def __init__(self, client: Client, path: str, name: str, on_object: Callable[[Object], None]) -> None:
        self._client = client
        self._path = path
        self._name = name
        self._on_object = on_object
        self._closed = threading.Event()
        self._stream: WatchResponse | None = None
        self._pause = FIRST_PAUSE

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name=f"distq-election-watch-{self._name}", daemon=True).start()

    def close(self) -> None:
        """End the watch; nothing is called afterwards, but the thread is not waited for."""
        self._closed.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._follow()
            except Exception as error:  # noqa: BLE001 - whatever ends a watch, the next one may work
                if not self._closed.is_set():
                    logger.debug("watch of %s ended: %s", self._name, error)
            self._closed.wait(self._pause * random.uniform(0.5, 1))
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _follow(self) -> None:
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._name}",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(300, 600)),
        }
        with self._client.stream(self._path, query=query, read_timeout=READ_TIMEOUT) as stream:
            self._stream = stream
            if self._closed.is_set():  # close() came too early to find the stream
                return
            for line in stream:
                self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            raise ApiError(
                event["object"].get("message", "watch error"), status=event["object"].get("code", 0)
            )
        # A deletion is no release: the leader may still act until the lease would have expired.
        if event["type"] in {"ADDED", "MODIFIED"} and not self._closed.is_set():
            self._on_object(event["object"])
        self._pause = FIRST_PAUSE  # not before: what cannot be read comes again with each connection
