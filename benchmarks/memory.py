"""Bytes that an item of 20 bytes needs, by where it is: ready, delayed, processing."""

import time
from itertools import islice

from benchmarks.servers import Server
from benchmarks.subjects import Distq, fill, new_keys

CLAIMS = 250
"""The most that one turn claims."""


def measure(server: Server, items: int) -> dict[str, float]:
    """Return the bytes an item, by state, with this many items in one state."""
    server.connection.execute("FLUSHALL")
    queue, keys = Distq(server.connection), new_keys()
    _warm_up(queue)
    empty = _used(server)
    bytes_by_state = {}
    fill(queue, keys, items)
    bytes_by_state["ready"] = (_used(server) - empty) / items
    while queue.consumer.turn(CLAIMS):
        pass
    bytes_by_state["processing"] = (_used(server) - empty) / items

    server.connection.execute("FLUSHALL")
    queue = Distq(server.connection)
    _warm_up(queue)
    empty = _used(server)
    for _ in range(0, items, 1000):
        _add_later(queue, list(islice(keys, min(1000, items))))
    bytes_by_state["delayed"] = (_used(server) - empty) / items
    return bytes_by_state


def _warm_up(queue: Distq) -> None:
    """Let buffers and loaded scripts be there before."""
    _add_later(queue, ["later"])
    queue.add(["first"])
    while queue.turn(1):
        pass


def _add_later(queue: Distq, keys: list[str]) -> None:
    queue.store.run("add_after", priority=0, max_length="", delay=3_600_000_000, items=keys)


def _used(server: Server) -> int:
    time.sleep(0.5)  # the server ends its rehashing in the background
    return int(server.info("memory")["used_memory"])
