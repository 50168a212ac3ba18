"""Queues with something of everything, as the pictures of the documentation show them."""

from contextlib import ExitStack
from math import sin

from distq.errors import RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.redisio.history import COARSE, FINE
from distq.redisio.keys import queue_key
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue

FAILING = {
    "prod/checkout": TimeoutError("POST https://dns.example/v1/records: no answer within 10 s"),
    "prod/search": TimeoutError("POST https://dns.example/v1/records: no answer within 10 s"),
    "prod/mail": TimeoutError("POST https://dns.example/v1/records: no answer within 10 s"),
    "staging/web": RetryAfter(180, "quota of the project is used up"),
    "prod/billing": TerminalError("spec.image: no such image: registry.example/billing:v4"),
    "team-a/cron": TerminalError("spec.schedule: cannot read '61 * * * *'"),
}


def play(connection: Connection, handles: ExitStack) -> None:
    """Fill three queues: one that works and fails, one that is paused, one that is calm."""
    foos = _opened(connection, handles, "websites")
    for key, error in FAILING.items():
        for _ in range(1 if isinstance(error, TerminalError) else 4):
            foos.add(key)
            _fail(foos, error)
    foos.add(*(f"prod/site-{number:03}" for number in range(140)), priority=-100)
    foos.add("prod/web", "prod/api", "prod/login", priority=10)
    for _ in range(3):
        foos.get(timeout=5)
    foos.add("prod/web", priority=10)
    foos.add(*(f"dev/preview-{number}" for number in range(12)), after=900)
    for name, version in (("websites.example.com", "48213"), ("deployments.apps", "48190")):
        StreamStore(connection, "websites", name).commit(
            epoch="7",
            after="",
            new=version,
            batch="b-1",
            about={"resource": name, "leader": "informer-6c9f-x2x", "synced": True, "lag": 0.021, "lists": 1},
        )
    paused = _opened(connection, handles, "certificates")
    paused.add(*(f"prod/cert-{number}" for number in range(31)))
    Inspector(connection).pause("certificates")
    _opened(connection, handles, "backups")


def _opened(connection: Connection, handles: ExitStack, name: str) -> Queue:
    handle = Queue(name, connection)
    handles.callback(handle.close)
    handle.add("done/once")
    handle.settle(handle.get(timeout=5))
    return handle


def _fail(queue: Queue, error: Exception) -> None:
    request = queue.get(timeout=5)
    try:
        raise error
    except Exception as failure:  # noqa: BLE001 - any of them
        queue.settle(request, failure)


def remember(connection: Connection, queue: str, *, seconds: int, period: int) -> None:
    """Write a past for a queue: a deploy that brings many items at once, and an outage in which some fail."""
    now = int(connection.now())
    ring = FINE if period == FINE.period else COARSE
    chunks: dict[int, list[str]] = {}
    done = failed = 0
    for at in range((now - seconds) // period * period, now, period):
        part = (at - now + seconds) / seconds
        rush = max(0.0, 1 - abs(part - 0.45) * 8)
        outage = max(0.0, 1 - abs(part - 0.75) * 12)
        ready = round(40 + 420 * rush + 60 * sin(part * 40) ** 2 + 180 * outage)
        done, failed = done + round((8 - 5 * outage + 6 * rush) * period), failed + round(3 * outage * period)
        counts = (ready, 16 + round(30 * outage), round(3 + 5 * rush), 1, 2, 6 + round(24 * outage), 3)
        line = (at, *counts, round(700 + 21_000 * rush + 9_000 * outage), 0, done, failed)
        chunks.setdefault(at // (ring.period * ring.samples), []).append(" ".join(map(str, line)))
    fields = [
        word
        for number, texts in chunks.items()
        for word in (ring.field(number), "\n".join([str(number), *texts]))
    ]
    connection.execute("HSET", queue_key(queue, "history", prefix=connection.prefix), *fields)
