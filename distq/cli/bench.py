"""The command that measures a Redis: bench."""

import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from queue import Empty as NothingCame
from queue import SimpleQueue
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import click

from distq.cli.options import Seconds, command, with_settings
from distq.cli.output import Progress, note, print_json, print_table
from distq.cli.signals import leave_on_signals
from distq.config import Settings
from distq.errors import DistqError, Empty, RedisUnavailable

if TYPE_CHECKING:
    from distq.redisio.connection import Connection
    from distq.workqueue.queue import Queue

BATCH = 100
AT_ONCE = 5_000
"""Items that the queue holds at most, so that it takes less than a megabyte of a Redis in use."""

_WAKE_UP_TIMEOUT = 5.0
_ASLEEP_AFTER = 0.02
"""Seconds after which a consumer that found nothing sleeps."""


class _Figure(NamedTuple):
    what: str
    value: float
    unit: str


@command("distq bench --seconds 10")
@click.option(
    "--seconds", type=Seconds(2, 600), default=20.0, show_default=True, help="How long it measures."
)
@with_settings()
def bench(*, settings: Settings, as_json: bool, seconds: float) -> None:
    """Measure distq's speed on this Redis, with one busy client and a queue of its own."""
    from distq.redisio.connection import Connection
    from distq.redisio.queue_store import QueueStore
    from distq.workqueue.queue import Queue

    leave_on_signals()
    connection = Connection(settings=settings)
    connection.now()  # raises where there is no Redis
    name = f"distq-bench-{secrets.token_hex(4)}"
    note(f"one client loads this Redis for {seconds:g} s, in the queue {name}, which is removed at the end")
    queue = Queue(name, connection)
    try:
        rows = list(_measured(queue, connection, seconds))
    finally:
        try:
            queue.close()
        finally:
            QueueStore(connection, name).remove()
    if as_json:
        for row in rows:
            print_json({"what": row.what, "value": round(row.value, 3), "unit": row.unit})
    else:
        print_table(["WHAT", "FIGURE"], [[row.what, _written(row)] for row in rows])
        note(_expectation(rows))


def _measured(queue: "Queue", connection: "Connection", seconds: float) -> Iterator[_Figure]:
    def until(share: float) -> float:
        return time.monotonic() + seconds * share

    with Progress() as progress:
        progress.show("measuring: round trip")
        yield from _round_trips(connection, until(0.1))
        progress.show("measuring: batches")
        yield from _cycles(queue, connection, until(0.35), BATCH)
        progress.show("measuring: singly")
        yield from _cycles(queue, connection, until(0.35), 1)
        progress.show("measuring: wake-up")
        yield from _wake_ups(queue, connection, until(0.2))


def _written(row: _Figure) -> str:
    return f"{row.value:,.{0 if row.value >= 100 else 2}f} {row.unit}"


def _round_trips(connection: "Connection", until: float) -> Iterator[_Figure]:
    took = []
    while time.monotonic() < until:
        began = time.perf_counter()
        connection.execute("PING")
        took.append(time.perf_counter() - began)
    yield from _delays("round trip", took)


def _cycles(queue: "Queue", connection: "Connection", until: float, size: int) -> Iterator[_Figure]:
    """Add some items and work them off, so many a call, again and again."""
    from distq.workqueue.interface import Settlement, Success

    keys = [f"namespace-{number % 7}/object-{number:06}" for number in range(min(AT_ONCE, 50 * size))]
    adding = turning = 0.0
    items, cpu = 0, _cpu(connection)
    while items == 0 or time.monotonic() < until:
        began = time.perf_counter()
        for first in range(0, len(keys), size):
            queue.add(*keys[first : first + size])
        added = time.perf_counter()
        settlements: list[Settlement] = []
        done = 0
        while done < len(keys):
            requests = queue.turn(settlements, size).requests
            done += len(settlements)
            settlements = [Settlement(request, Success()) for request in requests]
        adding, turning = adding + added - began, turning + time.perf_counter() - added
        items += len(keys)
    how = f"{size} a call" if size > 1 else "one a call"
    yield _Figure(f"add, {how}", items / adding, "items/s")
    yield _Figure(f"settle and claim, {how}", items / turning, "items/s")
    if cpu is not None and (after := _cpu(connection)) is not None and after > cpu:
        yield _Figure(f"Redis' time of an item, {how}", (after - cpu) / items * 1e6, "µs")


def _wake_ups(queue: "Queue", connection: "Connection", until: float) -> Iterator[_Figure]:
    """Measure the time from the start of an add until a sleeping consumer has claimed the item."""
    from distq.workqueue.queue import Queue

    consumer = Queue(queue.name, connection)
    came: SimpleQueue[float | DistqError] = SimpleQueue()
    thread = threading.Thread(target=_consume, args=(consumer, came), name="distq-bench", daemon=True)
    thread.start()
    took: list[float] = []
    try:
        while not took or time.monotonic() < until:
            time.sleep(_ASLEEP_AFTER)
            began = time.perf_counter()
            queue.add("wake-up")
            took.append(_arrival(came) - began)
    finally:
        consumer.shut_down()
        thread.join(_WAKE_UP_TIMEOUT)
        consumer.close()
    yield from _delays("add to claim by a sleeping worker", took)


def _consume(consumer: "Queue", came: "SimpleQueue[float | DistqError]") -> None:
    try:
        while not consumer.shutting_down:
            try:
                request = consumer.get(1.0)
            except Empty:
                continue
            came.put(time.perf_counter())
            consumer.settle(request)
    except DistqError as error:
        came.put(error)


def _arrival(came: "SimpleQueue[float | DistqError]") -> float:
    try:
        arrived = came.get(timeout=_WAKE_UP_TIMEOUT)
    except NothingCame:
        raise RedisUnavailable(f"an item was not claimed within {_WAKE_UP_TIMEOUT:g} s of its add.") from None
    if isinstance(arrived, DistqError):
        raise arrived
    return arrived


def _delays(what: str, took: Sequence[float]) -> Iterator[_Figure]:
    ordered = sorted(took)
    yield _Figure(f"{what}, half of them within", median(ordered) * 1e3, "ms")
    yield _Figure(f"{what}, 99 of 100 within", ordered[int(0.99 * len(ordered))] * 1e3, "ms")


def _cpu(connection: "Connection") -> float | None:
    """Return the CPU seconds of Redis' main thread; None where Redis does not report them."""
    try:
        text = bytes(connection.execute("INFO", "cpu")).decode()
    except DistqError:  # the user has no right to INFO
        return None
    reported = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    used = [reported.get(f"used_cpu_{part}_main_thread") for part in ("user", "sys")]
    return sum(float(seconds) for seconds in used if seconds) if all(used) else None


def _expectation(rows: Sequence[_Figure]) -> str:
    figures = {row.what: row.value for row in rows}
    alone = min(figures["add, one a call"], figures["settle and claim, one a call"])
    text = f"expect: a process that adds or takes items one by one does {alone:,.0f} a second"
    busy, single = (
        figures.get(f"Redis' time of an item, {how}") for how in (f"{BATCH} a call", "one a call")
    )
    if busy and single:
        text += (
            f"; a whole fleet {1e6 / single:,.0f} so, and up to {1e6 / busy:,.0f} as busy workers do, "
            "before one core of this Redis is full"
        )
    return f"{text}. Other load of this Redis is in these figures."
