"""Queues with something of everything, as the pictures of the documentation show them."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import sin

from distq.errors import RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.redisio.audit_log import AuditLog
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.durations import Durations
from distq.redisio.history import COARSE, FINE
from distq.redisio.keys import queue_key
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from distq.workqueue.queue_ownership import Purpose
from distq.workqueue.request import Request

FAILING = {
    "prod/billing": TerminalError("spec.image: no such image: registry.example/billing:v4"),
    "team-a/cron": TerminalError("spec.schedule: cannot read '61 * * * *'"),
    "staging/web": RetryAfter(900, "quota of the project is used up"),
    "prod/checkout": TimeoutError("POST https://dns.example/v1/records: no answer within 10 s"),
    "prod/search": TimeoutError("POST https://dns.example/v1/records: no answer within 10 s"),
    "prod/mail": TimeoutError("POST https://dns.example/v1/records: no answer within 10 s"),
}


_RECONCILES: dict[str, Callable[[Exception], None]] = {}
"""A function that fails, in a file of a user's controller, as its tracebacks show it."""
exec(  # noqa: S102 - ours
    compile("\n" * 40 + "def reconcile(error):\n    raise error", "/app/websites.py", "exec"), _RECONCILES
)


def play(connection: Connection, handles: ExitStack) -> None:
    """Let ten minutes pass: one queue works and fails, one is paused, one is calm."""
    began = connection.now() - 600
    time = Time(connection, began)
    workers = [_opened(connection, handles, "websites") for _ in range(3)]
    _work_and_fail(workers[0], time)
    paused = _opened(connection, handles, "certificates")
    paused.add(*(f"prod/cert-{number}" for number in range(31)))
    Inspector(connection).pause("certificates")
    _opened(connection, handles, "backups")
    _lead(connection)
    time.move(415)
    Inspector(connection).trace_on("websites", seconds=600)
    _be_traced(workers, time)
    workers[0].add(*(f"prod/site-{number:03}" for number in range(140)), priority=-100)
    workers[0].add(*(f"dev/preview-{number}" for number in range(12)), after=900)
    workers[0].add("prod/web", "prod/api", "prod/login", priority=10)
    for worker in workers:
        worker.get(timeout=5)
        time.move(1.7)
    workers[0].add("prod/web", priority=10)
    for queue in ("websites", "certificates", "backups"):
        remember(connection, queue, seconds=3600, period=FINE.period)
    _act(connection)
    connection.server_time = 0


class Time:
    """The server's time, as this connection's scripts take it."""

    def __init__(self, connection: Connection, began: float) -> None:
        self._connection = connection
        connection.server_time = round(began * 1e6)

    def move(self, seconds: float) -> None:
        """Let some time pass."""
        self._connection.server_time += round(seconds * 1e6)


def _work_and_fail(queue: Queue, time: Time) -> None:
    for key, error in FAILING.items():
        for _ in range(1 if isinstance(error, TerminalError) else 4):
            queue.add(key, priority=100)
            time.move(2.5)
            request = queue.get(timeout=5)
            _fail(request, queue, FAILING[request.key])
            time.move(2.5)


def _be_traced(workers: Sequence[Queue], time: Time) -> None:
    """Let three workers take turns for a minute and a half; one key fails again."""
    for number in range(36):
        worker = workers[number % 3]
        worker.add("prod/checkout" if number % 9 == 4 else f"prod/shop-{number:02}", priority=50)
        request = worker.get(timeout=5)
        time.move(0.7 + number % 4)
        if error := FAILING.get(request.key):
            _fail(request, worker, error)
        else:
            worker.settle(request)


def _lead(connection: Connection) -> None:
    """Follow three resources: one without a failure, one that failed once, one that waits for a right."""
    now = connection.now()
    leads = {
        "leader": "informer-6c9f-x2x",
        "led_since": now - 11_500,
        "synced": True,
        "lag": 0.021,
        "lists": 1,
    }
    silent = "watch apps/v1/Deployment: no answer from https://10.96.0.1:443: silence for too long."
    denied = (
        "list v1/Secret: 403 secrets is forbidden. Add to a ClusterRole of this user: "
        '- {apiGroups: [""], resources: ["secrets"], verbs: ["list"]}.'
    )
    streams: dict[str, tuple[str, dict[str, object]]] = {
        "websites.example.com": ("48213", {}),
        "deployments.apps": ("48190", {"error": silent, "error_at": now - 2500}),
        "secrets": (
            "~1",
            {"synced": False, "lists": 0, "error": denied, "error_at": now, "failing_since": now - 400},
        ),
    }
    for name, (position, about) in streams.items():
        StreamStore(connection, "websites", name).commit(
            Commit(epoch="7", after="", new=position, batch="b-1", about={"resource": name, **leads, **about})
        )


def _act(connection: Connection) -> None:
    """Let two people act on dashboards; the process of the last action ended meanwhile."""
    for person, action, text, outcome in (
        ("ada", "pause", "pause certificates", "done"),
        ("ada", "requeue", "requeue dead items of websites that match prod/*", "1298 of 1300 changed"),
        ("eve", "park", "park prod/web of websites", "0 of 1 changed"),
        ("eve", "resync", "resync backups", "failed: nothing to list: no informer feeds backups."),
        ("ada", "delete", "delete delayed items of websites", None),
    ):
        fields = {"person": person, "address": "10.0.3.7", "action": action, "text": text}
        name = next(name for name in ("certificates", "websites", "backups") if name in text)
        log = AuditLog(QueueStore(connection, name))
        entry_id = log.begin(fields)
        if outcome:
            log.end(entry_id, fields | {"outcome": outcome})


def _opened(connection: Connection, handles: ExitStack, name: str) -> Queue:
    handle = Queue(name, connection)
    handle.purpose = lambda: Purpose(f"example.com/v1/{name.capitalize().removesuffix('s')}")
    handles.callback(handle.close)
    handle.add("done/once")
    handle.settle(handle.get(timeout=5))
    return handle


def _fail(request: Request, queue: Queue, error: Exception) -> None:
    try:
        _RECONCILES["reconcile"](error.with_traceback(None))
    except Exception as failure:  # noqa: BLE001 - any of them
        here = failure.__traceback__
        queue.settle(request, failure.with_traceback(here and here.tb_next))  # as if no test had called it


def remember(connection: Connection, queue: str, *, seconds: int, period: int) -> None:
    """Write a past for a queue: a rush of new items, and an outage in which some fail."""
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
        waiting = _durations(median_ms=8 + 2_500 * rush + 900 * outage)
        working = _durations(median_ms=70 + 700 * outage)
        longest = round(700 + 21_000 * rush + 9_000 * outage)
        line = (at, *counts, longest, 0, done, failed, waiting, working)
        chunks.setdefault(at // (ring.period * ring.samples), []).append(" ".join(map(str, line)))
    fields: list[str] = []
    for number, texts in chunks.items():
        fields += [ring.field(number), "\n".join([str(number), *texts])]
    connection.execute("HSET", queue_key(queue, "history", prefix=connection.prefix), *fields)


def _durations(*, median_ms: float) -> Durations:
    """Return a hundred durations of which most are near the median, and few ten times as long."""
    found = Durations()
    found.note([int(median_ms * (0.4 + part / 85 + (9.0 if part > 96 else 0.0))) for part in range(100)])
    return found
