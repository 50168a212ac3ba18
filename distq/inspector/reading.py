"""How one queue's keys become the Inspector's records; nothing here writes."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from distq.inspector.info import ItemInfo, QueueInfo, State, StreamInfo, Timestamp, WorkerInfo
from distq.redisio.checkpoints import is_listing
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import ClaimRecord, FailureRecord
from distq.redisio.scores import decode_due, decode_order
from distq.redisio.stream_store import stream_records

SCAN_COUNT = 500
_HASHES = {"failures", "workers"}


def queue_info(store: QueueStore) -> QueueInfo:
    """Describe a queue in three round trips and one for each priority that is waiting."""
    due_before = (int(store.now() * 1000) + 1) * 2048
    ready, delayed, processing, dirty, dead, failing, due, first_due, paused = store.read(
        ("ZCARD", "ready"),
        ("ZCARD", "delayed"),
        ("ZCARD", "processing"),
        ("ZCARD", "dirty"),
        ("ZCARD", "dead"),
        ("HLEN", "failures"),
        ("ZCOUNT", "delayed", "-inf", f"({due_before}"),
        ("ZRANGEBYSCORE", "delayed", "-inf", f"({due_before}", "WITHSCORES", "LIMIT", 0, 1),
        ("HGET", "meta", "paused"),
    )
    waiting_since = [*_heads(store), *(decode_due(float(score))[1] for score in first_due[1::2])]
    workers = list(_worker_records(store))
    return QueueInfo(
        name=store.name,
        paused=paused is not None,
        paused_since=None if paused is None else Timestamp(int(paused) / 1_000_000),
        ready=ready,
        delayed=delayed,
        processing=processing,
        dirty=dirty,
        dead=dead,
        failing=failing,
        depth=ready + dirty + due,
        workers=len(workers),
        oldest_ready=_timestamp(min(waiting_since, default=None)),
        done_per_second=round(sum((float(about.get("done_per_second", 0)) for _, about in workers), 0.0), 3),
    )


def _heads(store: QueueStore) -> Iterator[int]:
    """Yield since when the first item of each priority has been ready, in µs."""
    lowest = "-inf"
    while head := store.read(("ZRANGEBYSCORE", "ready", lowest, "+inf", "WITHSCORES", "LIMIT", 0, 1))[0]:
        priority, since_us = decode_order(float(head[1]))
        yield since_us
        lowest = repr(2.0 ** (53 - priority))  # where the orders of the next lower priority begin


def page(store: QueueStore, states: Sequence[str], offset: int, limit: int) -> list[str]:
    """Return the keys at ranks ``offset`` to ``offset + limit`` of the states, one after another."""
    keys: list[str] = []
    for state, size in zip(states, store.read(*(("ZCARD", state) for state in states)), strict=True):
        wanted = limit - len(keys)
        if offset < size and wanted > 0:
            keys += _texts(store.read(("ZRANGE", state, offset, offset + wanted - 1))[0])
        offset = max(0, offset - size)
    return keys


def size(store: QueueStore, state: str) -> int:
    """Return how many items are in a state."""
    return int(store.read(("ZCARD", state))[0])


def scan(store: QueueStore, name: str, match: str) -> Iterator[list[str]]:
    """Yield the members of a sorted set or the fields of a hash that match, in batches, in no order."""
    command = "HSCAN" if name in _HASHES else "ZSCAN"
    for found in _scan_pairs(store, command, name, match):
        yield _texts(found[::2])


def _scan_pairs(store: QueueStore, command: str, name: str, match: str = "*") -> Iterator[list[bytes]]:
    cursor = 0
    while True:
        reply, found = store.read((command, name, cursor, "MATCH", match, "COUNT", SCAN_COUNT))[0]
        for start in range(0, len(found), 2 * SCAN_COUNT):
            yield found[start : start + 2 * SCAN_COUNT]
        cursor = int(reply)
        if cursor == 0:
            return


def describe(store: QueueStore, keys: Sequence[str]) -> Iterator[ItemInfo]:
    """Describe those of the keys that are in the queue, in their order."""
    if not keys:
        return
    *places, claims, failures = store.read(
        *(("ZMSCORE", name, *keys) for name in ("ready", "dirty", "delayed", "dead")),
        ("HMGET", "claims", *keys),
        ("HMGET", "failures", *keys),
    )
    held = [ClaimRecord.parse(claim) if claim else None for claim in claims]
    holders = _holders(store, {claim.session for claim in held if claim})
    for key, ready, dirty, delayed, dead, claim, failure in zip(keys, *places, held, failures, strict=True):
        place = _place(_number(ready), _number(dirty), _number(delayed), _number(dead), claim)
        if place:
            record = FailureRecord.parse(failure) if failure else FailureRecord(0, 0, 0, "", "", "")
            holder = holders.get(claim.session, _Holder()) if claim else _Holder()
            yield _item_info(store.name, key, place, record, holder)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an item is, from its scores and its claim."""

    state: State
    priority: int
    since_us: int | None
    due_us: int | None = None
    dirty: bool = False


@dataclass(frozen=True, slots=True)
class _Holder:
    """Who holds an item, and until when."""

    worker: str | None = None
    deadline_us: int | None = None


def _place(
    ready: float | None,
    dirty: float | None,
    delayed: float | None,
    dead: float | None,
    claim: ClaimRecord | None,
) -> _Place | None:
    due_priority, due_us = decode_due(delayed) if delayed is not None else (0, None)
    if claim:
        return _Place("processing", claim.priority, claim.fence, due_us, dirty is not None)
    if ready is not None:
        return _Place("ready", *decode_order(ready))
    if delayed is not None:
        return _Place("delayed", due_priority, None, due_us)
    if dead is not None:
        return _Place("dead", 0, int(dead))
    return None


def _item_info(queue: str, key: str, place: _Place, failure: FailureRecord, holder: _Holder) -> ItemInfo:
    failed_at = failure.failed_at_us or None
    return ItemInfo(
        queue=queue,
        key=key,
        state=place.state,
        dirty=place.dirty,
        priority=place.priority,
        failures=failure.count,
        since=_timestamp(place.since_us or failed_at),
        due=_timestamp(place.due_us),
        worker=holder.worker,
        claim_deadline=_timestamp(holder.deadline_us),
        last_error=failure.error or None,
        last_error_at=_timestamp(failed_at),
        reason=failure.reason or None,
        traceback=failure.traceback or None,
    )


def _holders(store: QueueStore, sessions: set[Any]) -> dict[Any, _Holder]:
    """Describe sessions. Deadlines become the server's time, as if each look came in time."""
    if not sessions:
        return {}
    numbers = list(sessions)
    deadlines, workers, (seen, clock) = store.read(
        ("ZMSCORE", "sessions", *numbers), ("HMGET", "workers", *numbers), ("HMGET", "meta", "seen", "clock")
    )
    ahead = int(float(seen or 0)) - int(float(clock or 0))
    return {
        number: _Holder(
            worker=_worker_name(number, json.loads(about)) if about else None,
            deadline_us=None if deadline is None else int(float(deadline)) + ahead,
        )
        for number, deadline, about in zip(numbers, deadlines, workers, strict=True)
    }


def workers(store: QueueStore) -> Iterator[WorkerInfo]:
    """Describe the queue's open handles."""
    for number, about in _worker_records(store):
        yield WorkerInfo(
            name=_worker_name(number, about),
            queue=store.name,
            host=str(about.get("host", "")),
            pid=int(about.get("pid", 0)),
            version=str(about.get("version", "")),
            since=_moment(about.get("since")),
            heartbeat=_moment(about.get("heartbeat")),
            processing=store.read(("ZCOUNT", "processing", number, number))[0],
            done=int(about.get("done", 0)),
            failed=int(about.get("failed", 0)),
        )


def _worker_records(store: QueueStore) -> Iterator[tuple[str, dict[str, Any]]]:
    seen: set[bytes] = set()  # a scan may repeat
    for found in _scan_pairs(store, "HSCAN", "workers"):
        for number, about in zip(found[::2], found[1::2], strict=True):
            if number not in seen:
                seen.add(number)
                yield number.decode(), json.loads(about)


def _worker_name(number: Any, about: dict[str, Any]) -> str:
    return str(about.get("id") or number)


def streams(store: QueueStore) -> Iterator[StreamInfo]:
    """Describe the streams that feed the queue."""
    for name, stream in sorted(stream_records(store.connection, store.name).items()):
        about = stream.about
        listing = is_listing(stream.position)
        yield StreamInfo(
            queue=store.name,
            resource=str(about.get("resource") or name),
            namespace=about.get("namespace"),
            leader=about.get("leader"),
            epoch=stream.epoch,
            version=None if listing else stream.position,
            synced=bool(about.get("synced", not listing)),
            lists=int(about.get("lists", 0)),
            lag=about.get("lag"),
        )


def _texts(values: Iterable[bytes]) -> list[str]:
    return [value.decode(errors="replace") for value in values]


def _number(score: Any) -> float | None:
    return None if score is None else float(score)


def _timestamp(micros: int | None) -> Timestamp | None:
    return None if micros is None else Timestamp(micros / 1_000_000)


def _moment(seconds: Any) -> Timestamp | None:
    return None if seconds is None else Timestamp(float(seconds))
