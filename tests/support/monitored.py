"""What clients ask of a server, seen by its MONITOR."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from distq.redisio.connection import Connection

_THE_END = "ECHO the end"


@contextmanager
def commands_of(url: str, connection: Connection) -> Iterator[list[str]]:
    """Give a list that has, at the end, what clients asked of the server meanwhile; not what scripts did."""
    asked: list[str] = []
    watching = redis.Redis.from_url(url)
    with watching.monitor() as monitor:
        seen: list[str] = []
        listener = threading.Thread(target=_listen, args=(monitor, seen))
        listener.start()
        try:
            yield asked
        finally:
            connection.execute(*_THE_END.split(" ", 1))
            listener.join(timeout=30)
        asked += seen
    watching.close()


def _listen(monitor: "redis.client.Monitor", seen: list[str]) -> None:
    for command in monitor.listen():
        if command["command"] == _THE_END:
            return
        if command["client_type"] != "lua":
            seen.append(command["command"])
