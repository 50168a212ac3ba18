"""What tests of back-off share: items that fail, and what a limiter then says."""

import hashlib
from pathlib import Path

from distq.errors import Empty
from distq.inspector import Inspector
from distq.inspector.info import ItemInfo
from distq.redisio import scripts
from distq.redisio.connection import Connection
from distq.redisio.limits import TURN_LIMIT
from distq.redisio.queue_store import QueueStore
from distq.redisio.scores import decode_due
from distq.workqueue.interface import Disposition, Release, Settlement
from distq.workqueue.outcome import outcome_of
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import ScriptedRateLimiter
from distq.workqueue.request import Request

_AROUND = """
local meta, program, count, now = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local call, now_text = redis.call, ARGV[3]
{limiter}
local delay = delay_of(program, count)
keep_buckets()
return string.format('%.17g', delay)
"""
_LIMITER = Path(scripts.__file__).parent / "lua" / "include" / "limiter.lua"


def fail(queue: Queue, key: str, error: BaseException | None = None) -> Disposition:
    """Add an item, so that it is pending now, claim it and fail; return what became of it."""
    queue.add(key)
    requests = {request.key: request for request in queue.turn([], TURN_LIMIT).requests}
    failure = Settlement(requests.pop(key), outcome_of(error or ValueError("again")))
    others = [Settlement(request, Release()) for request in requests.values()]
    return queue.turn([failure, *others], 0).dispositions[0]


def back_off(queue: Queue, key: str, error: BaseException | None = None) -> float:
    """Fail as ``fail`` does; return after how many seconds the item comes back, exact to the ms."""
    return _delay_of(queue, fail(queue, key, error))


def _delay_of(queue: Queue, disposition: Disposition) -> float:
    """Return the delay that an item got; an item that is pending again has no delay."""
    if disposition.kind == "pending":
        return 0
    due = disposition.due
    assert due is not None
    return round(due - queue.connection.server_time / 1e6, 3)


def due_in(queue: Queue, key: str) -> float:
    """Return after how many seconds a delayed item is due, exact to the ms."""
    (score,) = QueueStore(queue.connection, queue.name).read(("ZSCORE", "delayed", key))
    return round((decode_due(float(score))[1] - queue.connection.server_time) / 1e6, 3)


def evaluated(connection: Connection, limiter: ScriptedRateLimiter | str, count: int = 1) -> float:
    """Return the seconds that a limiter says for the count-th failure, unrounded, from its script alone."""
    source = _AROUND.format(limiter=_LIMITER.read_text())
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    program = limiter if isinstance(limiter, str) else limiter.program()
    key = QueueStore(connection, "foos").key("meta")
    reply = connection.evaluate(source, sha, [1, key, program, count, connection.server_time])
    return float(reply) / 1e6


def item_of(inspector: Inspector, key: str) -> ItemInfo:
    """Return what people see of an item that is in the queue."""
    item = inspector.item("foos", key)
    assert item is not None
    return item


def nothing_to_claim(queue: Queue) -> bool:
    """Return whether a get finds nothing."""
    try:
        queue.get(timeout=0)
    except Empty:
        return True
    return False


def raised(error: Exception) -> Exception:
    """Return the error with a traceback."""
    try:
        raise error
    except type(error):
        return error


def fail_many(queue: Queue, keys: list[str]) -> list[float]:
    """Claim all items, then fail one after another; return after how many seconds each comes back."""
    queue.add(*keys)
    held: list[Request] = []
    while requests := queue.turn([], TURN_LIMIT).requests:
        held += requests
    failures = [Settlement(request, outcome_of(ValueError("again"))) for request in held]
    dispositions: list[Disposition] = []
    for start in range(0, len(failures), TURN_LIMIT):
        dispositions += queue.turn(failures[start : start + TURN_LIMIT], 0).dispositions
    return [_delay_of(queue, disposition) for disposition in dispositions]
