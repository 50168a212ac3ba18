"""Reads a queue's structures into the Inspector's records; nothing here writes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from distq.errors import RedisRefused
from distq.inspector.info import (
    AuditEntry,
    AuditSource,
    ItemInfo,
    QueueInfo,
    StreamInfo,
    Timestamp,
    WorkerInfo,
)
from distq.redisio import queue_reads
from distq.redisio.checkpoints import is_listing
from distq.redisio.connection import Connection
from distq.redisio.keys import shown
from distq.redisio.queue_reads import Holder, StoredItem
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import ClaimRecord, FailureRecord, StreamRecord, count_of, moment_of, words_of
from distq.redisio.round_trips import Read, gather, run
from distq.workqueue.queue_ownership import Purpose

_NUMBERS = ("ready", "delayed", "processing", "dirty", "dead", "failing", "depth")
_AUDITED = ("person", "address", "action", "text", "outcome")
_NO_FAILURE = FailureRecord(0, 0, 0, "", "", "")


def queue_info(store: QueueStore, now: float) -> Read[QueueInfo]:
    """Describe a queue at the server's time ``now``; one that Redis refuses to show is broken."""
    try:
        return (yield from numbers(store, now))
    except RedisRefused as error:
        return QueueInfo(store.name, broken=str(error))


def numbers(store: QueueStore, now: float) -> Read[QueueInfo]:
    """Describe a queue at the server's time ``now``; raise RedisRefused for one that cannot be read."""
    asked: list[Read[Any]] = [
        queue_reads.counts(store, now),
        queue_reads.heads(store, "ready"),
        queue_reads.worker_records(store),
    ]
    counts, heads, workers = yield from gather(asked)
    # the first of each priority: the oldest may be behind later ones; and items that no turn has promoted yet
    waiting_since = [*heads.values(), *(due_us for _, due_us in counts.first_due if due_us)]
    return QueueInfo(
        name=store.name,
        paused=counts.paused_us is not None,
        paused_since=_timestamp(counts.paused_us or None),  # 0: it cannot be read
        **{name: getattr(counts, name) for name in _NUMBERS},
        workers=len(workers),
        oldest_ready=_timestamp(min(waiting_since, default=None)),
        done_per_second=_total(workers, "done_per_second"),
        failed_per_second=_total(workers, "failed_per_second"),
        traced_until=_later(counts.traced_until, now),
        catching_up_until=_later(counts.catching_up_until, now),
        held_back=counts.held_back,
    )


def _later(moment: float | None, now: float) -> Timestamp | None:
    return Timestamp(moment) if moment is not None and moment > now else None


def _total(workers: Mapping[int, Mapping[str, Any]], rate: str) -> float:
    return round(sum((moment_of(about.get(rate)) or 0.0 for about in workers.values()), 0.0), 3)


def worker_names(store: QueueStore) -> Read[dict[int, str]]:
    """Return the names of the queue's open handles, by session number."""
    workers = yield from queue_reads.worker_records(store)
    return {session: _worker_name(session, about) for session, about in workers.items()}


def worker_infos(store: QueueStore) -> Read[list[WorkerInfo]]:
    """Describe the queue's open handles."""
    workers = yield from queue_reads.worker_records(store)
    held = yield from queue_reads.claim_counts(store, workers)
    return [
        WorkerInfo(
            name=_worker_name(session, about),
            queue=store.name,
            host=words_of(about.get("host")) or "",
            pid=count_of(about.get("pid")),
            version=words_of(about.get("version")) or "",
            since=_moment(about.get("since")),
            heartbeat=_moment(about.get("heartbeat")),
            processing=processing,
            done=count_of(about.get("done")),
            failed=count_of(about.get("failed")),
            done_per_second=moment_of(about.get("done_per_second")) or 0.0,
            failed_per_second=moment_of(about.get("failed_per_second")) or 0.0,
            resource=purpose.resource if (purpose := Purpose.parse(about)) else None,
        )
        for (session, about), processing in zip(workers.items(), held, strict=True)
    ]


def reconciled_resource(store: QueueStore) -> Read[str | None]:
    """Return the resource whose objects the keys name, by workers and leaders; None if that is not one."""
    asked: list[Read[Any]] = [queue_reads.worker_records(store), queue_reads.streams(store)]
    workers, streams = yield from gather(asked)
    abouts = [*workers.values(), *(stream.about for stream in streams.values())]
    purposes = [purpose for purpose in map(Purpose.parse, abouts) if purpose]
    is_one = len({purpose.group_kind for purpose in purposes}) == 1
    return purposes[0].resource if is_one else None


def stream_infos(store: QueueStore, now: float) -> Read[list[StreamInfo]]:
    """Describe the streams that feed the queue at the server's time ``now``."""
    streams = yield from queue_reads.streams(store)
    cached = yield from queue_reads.cached_counts(store, streams)
    return [
        _stream_info(store.name, name, stream, now, cached.get(name))
        for name, stream in sorted(streams.items())
    ]


def item_infos(store: QueueStore, members: Sequence[bytes]) -> Read[list[ItemInfo]]:
    """Describe the members that are items of the queue, in their order."""
    items = yield from queue_reads.items(store, members)
    sessions = {item.claim.session for item in items if item and item.claim}
    asked: list[Read[Any]] = [queue_reads.holders(store, sessions)]
    if any(item.time_may_mend for item in items if item):  # only these are revived after a time
        asked.append(_revive_dead_after(store))
    holders, *after = yield from gather(asked)
    revive_after = after[0] if after else None
    found = zip(members, items, strict=True)
    return [
        _item_info(store.name, shown(member), item, holders, revive_after) for member, item in found if item
    ]


def _revive_dead_after(store: QueueStore) -> Read[float | None]:
    """Return after how many seconds the open handles revive a dead item; None where none of them does."""
    workers = yield from queue_reads.worker_records(store)
    periods = (moment_of(about.get("revive_dead_after")) for about in workers.values())
    return min((seconds for seconds in periods if seconds), default=None)


def page(
    store: QueueStore, states: Sequence[str], offset: int, limit: int, *, last_first: bool = False
) -> Read[list[ItemInfo]]:
    """Describe the items at ranks ``offset`` to ``offset + limit`` of the states, one after another."""
    members = yield from queue_reads.page(store, states, offset, limit, last_first=last_first)
    return (yield from item_infos(store, members))


def scan(store: QueueStore, state: str, match: str) -> Iterator[list[bytes]]:
    """Yield the members of a state, or of the failures, that match: in batches, unordered, perhaps twice."""
    for structure in queue_reads.structures_of(state):
        for batch in filter(None, queue_reads.scan(store, structure, match)):
            yield [member for member, _ in batch]


def scan_items(
    connection: Connection, store: QueueStore, state: str | None, match: str, *, failing: bool
) -> Iterator[ItemInfo]:
    """Yield the items in a state, or in any, that match, or fail; as ``scan`` finds them."""
    structures = ["failures"] if failing else [state] if state else ["processing", "ready", "delayed", "dead"]
    for structure in structures:
        for batch in scan(store, structure, match):
            for item in run(connection, item_infos(store, batch)):
                # it may have left the state since the scan
                if state in {None, item.state} or (state == "dirty" and item.dirty):
                    yield item


def _item_info(
    queue: str, key: str, item: StoredItem, holders: Mapping[int, Holder], revive_after: float | None
) -> ItemInfo:
    failure = _failure_of(item)
    failed_at = failure.failed_at_us or None
    worker, claim_deadline = _claimed_by(item.claim, holders)
    return ItemInfo(
        queue=queue,
        key=key,
        state=item.state,
        dirty=item.dirty,
        priority=item.priority,
        failures=failure.count,
        since=_timestamp(item.since_us or failed_at),
        due=_due(item, revive_after),
        worker=worker,
        claim_deadline=claim_deadline,
        last_error=failure.error or None,
        last_error_at=_timestamp(failed_at),
        reason=failure.reason or None,
        traceback=failure.traceback or None,
        held_back=item.held_back,
        crashes=failure.crashes,
    )


def _due(item: StoredItem, revive_after: float | None) -> Timestamp | None:
    """Return when an item becomes pending; of a dead one when ``revive_dead_after`` revives it."""
    if item.time_may_mend and item.since_us is not None and revive_after is not None:
        return Timestamp(item.since_us / 1e6 + revive_after)
    return _timestamp(item.due_us)


def _failure_of(item: StoredItem) -> FailureRecord:
    """Return an item's failure record; of a revived item without the reason for which it was dead."""
    failure = item.failure or _NO_FAILURE
    if item.state == "dead":
        return failure
    if failure.reason == "parked":  # then the text and the time are the operator's, not a failure's
        return replace(failure, reason="", error="", traceback="", failed_at_us=0)
    return replace(failure, reason="")


def _claimed_by(
    claim: ClaimRecord | None, holders: Mapping[int, Holder]
) -> tuple[str | None, Timestamp | None]:
    """Return the worker that holds an item, and until when; None for what a session that is gone lacks."""
    if claim is None:
        return None, None
    holder = holders[claim.session]
    worker = None if holder.worker is None else _worker_name(claim.session, holder.worker)
    return worker, _timestamp(holder.deadline_us)


def _worker_name(session: int, about: Mapping[str, Any]) -> str:
    return words_of(about.get("id")) or str(session)


def _stream_info(queue: str, name: str, stream: StreamRecord, now: float, cached: int | None) -> StreamInfo:
    about, gone_since = stream.about, stream.gone_since(now)
    listing = is_listing(stream.position)
    return StreamInfo(
        queue=queue,
        resource=words_of(about.get("resource")) or name,
        namespace=words_of(about.get("namespace")),
        leader=words_of(about.get("leader")),
        leader_since=_moment(about.get("led_since")),
        gone_since=_moment(gone_since),
        epoch=stream.epoch,
        version=None if listing else stream.position,
        synced=gone_since is None and bool(about.get("synced", not listing)),
        lists=count_of(about.get("lists")),
        lag=stream.moment("lag") if gone_since is None else None,
        behind=words_of(about.get("behind")) or None if gone_since is None else None,
        cached=cached,
        last_error=words_of(about.get("error")) or None,
        last_error_at=_moment(about.get("error_at")),
        failing_since=_moment(about.get("failing_since")) if gone_since is None else None,
    )


def audit_entry(fields: Mapping[str, Any]) -> AuditEntry | None:
    """Read an entry of the audit; None for one that another program wrote."""
    at, words = moment_of(fields.get("at")), {name: words_of(fields.get(name)) for name in _AUDITED}
    if at is None or not words["action"] or not words["text"]:
        return None
    via: AuditSource = "command line" if fields.get("via") == "command line" else "dashboard"
    return AuditEntry(at=Timestamp(at), via=via, queue=str(fields["queue"]), **words)  # type: ignore[arg-type]  # the two are texts


def _timestamp(micros: int | None) -> Timestamp | None:
    return None if micros is None else Timestamp(micros / 1_000_000)


def _moment(seconds: Any) -> Timestamp | None:
    return None if (moment := moment_of(seconds)) is None else Timestamp(moment)
