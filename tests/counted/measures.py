"""What is counted, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from unittest.mock import patch

from distq.controller.worker import claim_pace
from distq.redisio.connection import Connection
from distq.testing.fake_clock import FakeClock
from distq.workqueue import heartbeat
from distq.workqueue.queue import Queue
from tests.counted import paths, requests, wake_ups, watch_lines
from tests.counted.paths import ITEMS, Calls, apart, keys

Path = Callable[[Queue], None]


@dataclass(frozen=True)
class Measure:
    """One number; ``is_of_python`` where it depends on the version of Python."""

    count: Callable[[Connection], float]
    is_of_python: bool = False


def _queue(connection: Connection, *, filled: bool) -> Queue:
    connection.execute("FLUSHALL")
    queue = Queue("counted", connection, clock=FakeClock())  # by which each reconcile is as quick as the next
    queue.add("first")  # which makes the queue known
    queue.settle(queue.get())
    queue.close()
    if filled:
        queue.add(*keys())
    return queue


def _calls(path: Path, *, filled: bool) -> Measure:
    def count(connection: Connection) -> float:
        calls = Calls()

        def work() -> None:
            queue = _queue(connection, filled=filled)
            # a slot of a busy machine may come late, and its item would go back
            with patch.object(claim_pace, "STALE", 3600.0), calls.counted():
                path(queue)

        apart(work)
        return calls.count / ITEMS

    return Measure(count, is_of_python=True)


def _at_server(path: Path, look: Callable[[Connection], int], *, filled: bool, of: int = 1) -> Measure:
    def count(connection: Connection) -> float:
        before = after = 0
        # the first turn after each 100 ms of the server's does more, and a busy machine has more of them
        connection.server_time = 1_795_000_000_000_000

        def work() -> None:
            nonlocal before, after
            queue = _queue(connection, filled=filled)
            before = look(connection)
            path(queue)
            after = look(connection)

        with patch.object(heartbeat, "NEWS_INTERVAL", 3600.0):  # heartbeats come by the clock
            apart(work)
        connection.server_time = 0
        return (after - before) / ITEMS * of

    return Measure(count)


def _request(act: requests.Act) -> Measure:
    return Measure(lambda _: requests.own_calls(act), is_of_python=True)


def _line(*, cached: bool) -> Measure:
    return Measure(lambda connection: watch_lines.calls_of_line(connection, cached=cached), is_of_python=True)


def _bytes(connection: Connection) -> float:
    _queue(connection, filled=True)
    found = connection.execute("MEMORY", "USAGE", "distq:{counted}:ready", "SAMPLES", "0")
    return float(found) / ITEMS


ALL = {
    "calls an item: drain": _calls(paths.drain, filled=True),
    "calls an item: drain, async def": _calls(paths.drain_async, filled=True),
    "calls an item: drain, async def that waits": _calls(paths.drain_waiting, filled=True),
    "calls an item: loop": _calls(paths.loop, filled=True),
    "calls an item: add one by one": _calls(paths.add_singly, filled=False),
    "calls an item: add together": _calls(paths.add_together, filled=False),
    "commands an item: drain": _at_server(paths.drain, paths.commands_of, filled=True),
    "commands an item: loop": _at_server(paths.loop, paths.commands_of, filled=True),
    "commands an item: add one by one": _at_server(paths.add_singly, paths.commands_of, filled=False),
    "scripts of 10,000 items: drain": _at_server(paths.drain, paths.scripts_of, filled=True, of=10_000),
    "scripts an item: loop": _at_server(paths.loop, paths.scripts_of, filled=True),
    "scripts an item: add one by one": _at_server(paths.add_singly, paths.scripts_of, filled=False),
    "scripts an item: add, ten handles wait": Measure(wake_ups.scripts_of_add),
    "bytes an item: ready": Measure(_bytes),
    "calls a line of a watch": _line(cached=False),
    "calls a line of a watch: cached": _line(cached=True),
    "own calls a request: get": _request(requests.get),
    "own calls a request: patch": _request(requests.patch),
    "own calls a request: status patch": _request(requests.patch_status),
}
