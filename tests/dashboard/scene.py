"""Queues with something of everything, as the pictures of the documentation show them."""

from contextlib import ExitStack

from distq.errors import RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
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
