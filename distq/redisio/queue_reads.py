"""Plain reads of a queue: they write nothing, and need no right to run scripts.

Each function that returns a Read takes a few round trips at most, for a queue of any size. Its result is as
of its round trip: two results may differ by the changes in between.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from distq.redisio.keys import shown
from distq.redisio.limits import FAIR_LOOK, SCAN_LIMIT
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import ClaimRecord, FailureRecord, StreamRecord, parse_fields
from distq.redisio.round_trips import Command, Read, gather, run
from distq.redisio.scores import (
    ORDERS,
    decode_due,
    decode_order,
    decode_parked,
    decode_time,
    due_by,
    may_time_mend,
    orders_of,
)
from distq.redisio.trace import ends_at

State = Literal["ready", "delayed", "processing", "dead"]
"""The place of an item; *dirty* is a flag of processing."""

_STRUCTURES: Mapping[str, Sequence[str]] = {
    "ready": ("ready", "suspects", "held_back"),
    "failing": ("failures",),
}
_HASHES = {"arrivals", "cache", "claims", "failures", "known", "streams", "terms", "workers"}
_LONGEST_NUMBER = 16
"""Digits of a session's number; Python refuses to read thousands of them."""


def structures_of(state: str) -> Sequence[str]:
    """Return the structures that hold the items of a state; ready items may be in several, as suspects are.

    *failing* are the items with a failure record, in any state.
    """
    return _STRUCTURES.get(state, (state,))


@dataclass(frozen=True, slots=True)
class Counts:
    """A queue in numbers.

    ``paused_us`` is when a user stopped the claims, 0 if that cannot be read. ``due`` counts the delayed
    items whose time has come; ``first_due`` has the priority and the due time, in µs, of the first of them.
    ``held_back`` is a part of ``ready``. ``failing`` counts the failure records, those of dead items
    included, ``workers`` the open handles. ``traced_until`` is when the last trace ends or ended, seconds
    since the epoch. ``catching_up_until`` is until when workers wait for the watches of a leader; it may be
    over.
    """

    paused_us: int | None
    traced_until: float | None
    catching_up_until: float | None
    first_due: Sequence[tuple[int, int]]
    held_back: int
    ready: int
    delayed: int
    processing: int
    dirty: int
    dead: int
    failing: int
    workers: int
    due: int

    @property
    def depth(self) -> int:
        """Return how many items wait now: ready, dirty, and delayed ones that are due."""
        return self.ready + self.dirty + self.due


def counts(store: QueueStore, now: float, *, first_due: int = 1) -> Read[Counts]:
    """Count the items at ``now``, the server's time in seconds; read up to ``first_due`` due items, too."""
    due = ("-inf", f"({due_by(now)}")
    (paused, traced, catching_up), first, suspects, held_back, ready, *numbers = yield store.commands(
        ("HMGET", "meta", "paused", "trace", "catching_up"),
        ("ZRANGEBYSCORE", "delayed", *due, "WITHSCORES", "LIMIT", 0, first_due),
        ("ZCARD", "suspects"),
        ("ZCARD", "held_back"),
        ("ZCARD", "ready"),
        ("ZCARD", "delayed"),
        ("ZCARD", "processing"),
        ("ZCARD", "dirty"),
        ("ZCARD", "dead"),
        ("HLEN", "failures"),
        ("HLEN", "workers"),
        ("ZCOUNT", "delayed", *due),
    )
    paused_us = None if paused is None else decode_time(paused) or 0
    until_us = decode_time(catching_up.rpartition(b" ")[2]) if catching_up else None
    until = until_us and until_us / 1_000_000
    due_first = [decode_due(score) for score in first[1::2]]
    ready += suspects + held_back
    return Counts(paused_us, ends_at(traced), until, due_first, held_back, ready, *numbers)


# Priorities


def heads(store: QueueStore, state: Literal["ready", "dirty"]) -> Read[dict[int, int]]:
    """Return the priorities present, highest first, and since when (µs) the first item of each is pending."""
    found: dict[int, int] = {}
    reads: list[Read[Any]] = [_is_fair(store), *(_heads_of(store, each) for each in structures_of(state))]
    (is_fair,), *heads_of_each = yield from gather(reads)
    for structure, part in zip(structures_of(state), heads_of_each, strict=True):
        if is_fair and state == "ready":
            part = yield from _longest_of(store, structure, list(part))  # noqa: PLW2901
        found |= {priority: min(since, found.get(priority, since)) for priority, since in part.items()}
    return dict(sorted(found.items(), reverse=True))


def _is_fair(store: QueueStore) -> Read[list[int]]:
    """Return how many items have entered by their flows: none if the queue is not fair."""
    found = yield store.commands(("HLEN", "arrivals"))
    return found


def _longest_of(store: QueueStore, structure: str, priorities: Sequence[int]) -> Read[dict[int, int]]:
    """Return since when (µs) the longest waiting of the first hundred items of each priority is pending."""
    firsts = yield store.commands(
        *(
            ("ZRANGEBYSCORE", structure, lowest, f"({beyond}", "WITHSCORES", "LIMIT", 0, FAIR_LOOK)
            for lowest, beyond in map(orders_of, priorities)
        )
    )
    asked = [first for first in firsts if first]
    arrivals = yield store.commands(*(("HMGET", "arrivals", *first[::2]) for first in asked))
    return {
        decode_order(first[1])[0]: min(
            _since(place, arrival) for place, arrival in zip(first[1::2], arrived, strict=True)
        )
        for first, arrived in zip(asked, arrivals, strict=True)
    }


def _since(place: bytes, arrival: bytes | None) -> int:
    """Return since when (µs) an item is pending, by its place if its order by time is not known."""
    since = 0 if arrival is None else decode_order(arrival)[1]
    return since or decode_order(place)[1]


def _heads_of(store: QueueStore, structure: str) -> Read[dict[int, int]]:
    """Return the priorities present in a structure, and since when the first item of each is pending.

    Takes one round trip for one priority, five at most. A walk from each priority to the next would take a
    round trip each; instead the priorities between the first item and the last are cut into pieces, and one
    read per piece finds the first item from its beginning, which shows the part that is still unknown.
    """
    first, last = yield store.commands(
        ("ZRANGEBYSCORE", structure, *ORDERS, "WITHSCORES", "LIMIT", 0, 1),
        ("ZREVRANGEBYSCORE", structure, *reversed(ORDERS), "WITHSCORES", "LIMIT", 0, 1),
    )
    if not first or not last:
        return {}
    highest, since_us = decode_order(first[1])
    lowest, _ = decode_order(last[1])
    found = {highest: since_us}
    unknown = [range(highest - 1, lowest - 1, -1)] if highest > lowest else []
    while unknown:
        # of 1,800 unknown ones 28 a piece remain at most, then 6, then 1, then none
        pieces = [piece for priorities in unknown for piece in _cut(priorities, max(4, 64 // len(unknown)))]
        replies = yield store.commands(
            *(
                ("ZRANGEBYSCORE", structure, orders_of(piece[0])[0], ORDERS[1], "WITHSCORES", "LIMIT", 0, 1)
                for piece in pieces
            )
        )
        unknown = []
        for piece, head in zip(pieces, replies, strict=True):
            if not head:  # all these items are gone meanwhile
                continue
            priority, since_us = decode_order(head[1])
            found[priority] = since_us
            if priority > piece[-1]:
                unknown.append(range(priority - 1, piece[-1] - 1, -1))
    return found


def _cut(priorities: range, pieces: int) -> list[range]:
    """Cut a range into this number of pieces of equal length, or into fewer."""
    length = math.ceil(len(priorities) / pieces)
    return [priorities[start : start + length] for start in range(0, len(priorities), length)]


@dataclass(frozen=True, slots=True)
class Level:
    """The pending items of one priority, and since when (µs) the first ready item is pending."""

    ready: int
    dirty: int
    since_us: int | None


def levels(store: QueueStore, priorities: Collection[int]) -> Read[dict[int, Level]]:
    """Count the ready and dirty items of some priorities."""
    commands = (command for priority in priorities for command in _level_of(priority))
    is_fair, *replies = yield store.commands(("HLEN", "arrivals"), *commands)
    found = {
        priority: _level(*replies[start : start + _READS_OF_A_LEVEL])
        for priority, start in zip(priorities, range(0, len(replies), _READS_OF_A_LEVEL), strict=True)
    }
    if is_fair:
        longest = yield from gather(
            _longest_of(store, structure, [*priorities]) for structure in structures_of("ready")
        )
        for priority, level in found.items():
            since = min((part[priority] for part in longest if priority in part), default=None)
            found[priority] = replace(level, since_us=since)
    return found


_READS_OF_A_LEVEL = 1 + 2 * len(structures_of("ready"))


def _level(dirty: int, *of_ready: Any) -> Level:
    """Return the level from these replies: the count in each structure, and its first item there."""
    since = [decode_order(head[1])[1] for head in of_ready[1::2] if head]
    return Level(sum(of_ready[::2]), dirty, min(since, default=None))


def _level_of(priority: int) -> Iterator[Command]:
    lowest, beyond = orders_of(priority)
    yield "ZCOUNT", "dirty", lowest, f"({beyond}"
    for structure in structures_of("ready"):
        yield "ZCOUNT", structure, lowest, f"({beyond}"
        yield "ZRANGEBYSCORE", structure, lowest, f"({beyond}", "WITHSCORES", "LIMIT", 0, 1


# Items


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item as the queue's structures have it.

    ``since_us`` is when it got into its state, None if it is delayed. ``due_us`` is when it comes back, if it
    is delayed, or processed until then. ``time_may_mend`` of a dead item: waiting may help. ``held_back`` of
    a ready item: its flow is at its limit.
    """

    state: State
    priority: int
    since_us: int | None
    due_us: int | None = None
    dirty: bool = False
    claim: ClaimRecord | None = None
    failure: FailureRecord | None = None
    time_may_mend: bool = False
    held_back: bool = False


def items(store: QueueStore, keys: Sequence[bytes]) -> Read[list[StoredItem | None]]:
    """Return the item of each key, None if it is in no state."""
    if not keys:
        return []
    replies = yield store.commands(
        *(
            ("ZMSCORE", structure, *keys)
            for structure in ("ready", "suspects", "held_back", "dirty", "delayed", "dead", "processing")
        ),
        ("HMGET", "arrivals", *keys),
        ("HMGET", "claims", *keys),
        ("HMGET", "failures", *keys),
    )
    return [_item(found) for found in zip(*replies, strict=True)]


def _item(found: Sequence[bytes | None]) -> StoredItem | None:
    """Return the item from these replies. If a session holds it, that decides its state."""
    ready, suspected, held_back, dirty, delayed, dead, held, arrived, claimed, failed = found
    ready = next((score for score in (suspected, held_back) if score is not None), ready)
    failure = FailureRecord.parse(failed) if failed is not None else None
    due_priority, due_us = decode_due(delayed) if delayed is not None else (0, None)
    if held is not None:  # another program wrote a claim that is not in ``processing``
        claim = ClaimRecord.parse(claimed or b"")
        is_dirty = dirty is not None
        return StoredItem("processing", claim.priority, claim.fence, due_us, is_dirty, claim, failure)
    if ready is not None:
        since, is_held_back = _since(ready, arrived), held_back is not None
        return StoredItem("ready", decode_order(ready)[0], since, failure=failure, held_back=is_held_back)
    if delayed is not None:
        return StoredItem("delayed", due_priority, None, due_us, failure=failure)
    if dead is not None:
        return StoredItem("dead", 0, decode_parked(dead), failure=failure, time_may_mend=may_time_mend(dead))
    return None


def page(
    store: QueueStore, states: Sequence[str], offset: int, limit: int, *, last_first: bool = False
) -> Read[list[bytes]]:
    """Return the items at ranks ``offset`` to ``offset + limit`` of states, one after another.

    Suspects and held-back items come after other ready items; ``last_first`` reverses the order.
    """
    structures = [structure for state in states for structure in structures_of(state)]
    command = "ZREVRANGE" if last_first else "ZRANGE"
    if last_first:
        structures.reverse()
    sizes = yield store.commands(*(("ZCARD", structure) for structure in structures))
    ranges: list[Command] = []
    for structure, size in zip(structures, sizes, strict=True):
        wanted = min(limit, max(0, size - offset))
        if wanted > 0:
            ranges.append((command, structure, offset, offset + wanted - 1))
        limit -= wanted
        offset = max(0, offset - size)
    found = yield store.commands(*ranges)
    return [member for members in found for member in members]


def size(store: QueueStore, state: str) -> int:
    """Return how many items are in a state."""
    return sum(map(int, store.read(*(("ZCARD", structure) for structure in structures_of(state)))))


def scan(
    store: QueueStore, structure: str, match: str = "*", *, count: int = SCAN_LIMIT
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the members with their scores, or the fields with their values, that match, in batches.

    They come in no order, and one may come twice (Redis SCAN). A round trip reads about ``count`` of them;
    its batch is empty if none matches.
    """
    command = "HSCAN" if structure in _HASHES else "ZSCAN"
    cursor: int | None = 0
    while cursor is not None:
        ((next_cursor, flat),) = store.read((command, structure, cursor, "MATCH", match, "COUNT", count))
        cursor, pairs = int(next_cursor) or None, list(zip(flat[::2], flat[1::2], strict=True))
        # Redis returns a small structure whole, for any COUNT
        for start in range(0, len(pairs) or 1, count):
            yield pairs[start : start + count]


def scan_state(
    store: QueueStore, state: str, cursor: int, match: str = "*", *, count: int = SCAN_LIMIT
) -> Read[tuple[int | None, list[bytes]]]:
    """Return the cursor after this round trip, None at the end of a state, and its items that match.

    It begins at 0. The cursor also identifies the structure of the state.
    """
    structures = structures_of(state)
    within, place = divmod(cursor, len(structures))
    structure = structures[place]
    command = "HSCAN" if structure in _HASHES else "ZSCAN"
    ((next_cursor, flat),) = yield store.commands(
        (command, structure, within, "MATCH", match, "COUNT", count)
    )
    within, place = int(next_cursor), place if int(next_cursor) else place + 1
    return None if place == len(structures) else within * len(structures) + place, flat[::2]


# Workers


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of an item: its worker's record if the session lives, and when the claim lapses, in µs."""

    worker: dict[str, Any] | None
    deadline_us: int | None


def holders(store: QueueStore, sessions: Collection[int]) -> Read[dict[int, Holder]]:
    """Return the holders by their session numbers.

    Deadlines are times of the claim clock. They are converted to the server's time, as if each tick came in
    time.
    """
    if not sessions:
        return {}
    deadlines, workers, (seen, clock) = yield store.commands(
        ("ZMSCORE", "sessions", *sessions),
        ("HMGET", "workers", *sessions),
        ("HMGET", "meta", "seen", "clock"),
    )
    ahead = (decode_time(seen) or 0) - (decode_time(clock) or 0)
    return {
        session: Holder(
            worker=parse_fields(worker) if worker else None,
            deadline_us=None if (lapses := decode_time(deadline)) is None else lapses + ahead,
        )
        for session, deadline, worker in zip(sessions, deadlines, workers, strict=True)
    }


def worker_records(store: QueueStore) -> Read[dict[int, dict[str, Any]]]:
    """Return the last description of each open handle, by session number."""
    (flat,) = yield store.commands(("HGETALL", "workers"))
    return {
        int(session): parse_fields(text)
        for session, text in zip(flat[::2], flat[1::2], strict=True)
        if session.isdigit() and len(session) <= _LONGEST_NUMBER
    }


def claim_counts(store: QueueStore, sessions: Collection[int]) -> Read[list[int]]:
    """Return how many items each session holds."""
    found = yield store.commands(*(("ZCOUNT", "processing", session, session) for session in sessions))
    return found


# Streams


def streams(store: QueueStore) -> Read[dict[str, StreamRecord]]:
    """Return the records of the queue's streams, by their names."""
    (flat,) = yield store.commands(("HGETALL", "streams"))
    records = {
        shown(name): StreamRecord.parse(text) for name, text in zip(flat[::2], flat[1::2], strict=True)
    }
    return {name: record for name, record in records.items() if record is not None}


def cached_counts(store: QueueStore, streams: Mapping[str, StreamRecord]) -> Read[dict[str, int]]:
    """Return how many objects the cache of each stream holds, for streams that have a cache."""
    names = [name for name, record in streams.items() if "watch" in record.about]
    if not names:
        return {}
    numbers = yield [("HLEN", store.key(f"cache:{name}")) for name in names]
    return dict(zip(names, numbers, strict=True))


# client-go's queries of a queue


def depth(store: QueueStore) -> int:
    """Return how many items wait now: ready, dirty, and delayed ones that are due."""
    return run(store.connection, counts(store, store.connection.now(), first_due=0)).depth


def failure_count(store: QueueStore, key: bytes) -> int:
    """Return how many failures the key has (client-go util/workqueue NumRequeues)."""
    (record,) = store.read(("HGET", "failures", key))
    return 0 if record is None else FailureRecord.parse(record).count


def is_dirty(store: QueueStore, key: bytes) -> bool:
    """Return whether the key was added again while claimed."""
    (score,) = store.read(("ZSCORE", "dirty", key))
    return score is not None
