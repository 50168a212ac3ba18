"""Items of many queues together: those that fail, and those of one key.

Each look is at some hundreds of queues, by name, and takes six commands at most. Both look up points and
the first entries of structures: nothing that grows with a queue is read whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distq.errors import RedisRefused
from distq.inspector import reading
from distq.inspector.info import ItemInfo, Timestamp
from distq.inspector.view import QueueNames, names_at, newest_failure_first, stores_of
from distq.redisio.connection import Connection
from distq.redisio.keys import named
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import FailureRecord
from distq.redisio.round_trips import Read, gather

QUEUES_LOOKED_AT = 500
"""Queues of one look."""
THE_FIRST = QueueNames(limit=QUEUES_LOOKED_AT)
QUEUES_SHOWN = 100
_ROWS = 300
"""Failing items of a look, and as many dead ones, shared by its queues."""
_RECORDS = 1000
"""Failure records of a look, shared by its queues; of these the newest are shown."""


@dataclass(frozen=True, slots=True)
class QueueItems:
    """Some items of one queue; ``failing`` and ``dead`` count all that it has, where the look counts them.

    ``broken`` is why Redis refuses to show the queue, None for all others.
    """

    queue: str
    items: Sequence[ItemInfo] = ()
    failing: int = 0
    dead: int = 0
    broken: str | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to show."""
        return not (self.items or self.failing or self.dead or self.broken)


@dataclass(frozen=True, slots=True)
class ItemsAcross:
    """What one look found at the server's time ``now``, by queue, of ``matching`` queues in all.

    ``looked_at`` queues were looked at; ``left_out`` of them have such items, too, and are not shown.
    """

    now: Timestamp
    queues: Sequence[QueueItems]
    looked_at: int
    matching: int
    left_out: int


def failing(connection: Connection, names: QueueNames) -> Read[ItemsAcross]:
    """Find failing and dead items: of each queue the dead and the newest failures first."""
    return (yield from _across(connection, names, _failure_counts, _failing_items))


def find(connection: Connection, names: QueueNames, key: str) -> Read[ItemsAcross]:
    """Find the items of one key. Raises InvalidKey."""
    members = named(key)

    def of_key(store: QueueStore) -> Read[QueueItems]:
        return QueueItems(store.name, (yield from reading.item_infos(store, members)))

    return (yield from _across(connection, names, of_key))


_Look = Callable[[QueueStore], Read[QueueItems]]
_CloserLook = Callable[[QueueStore, QueueItems, int], Read[QueueItems]]


def _across(
    connection: Connection, names: QueueNames, look: _Look, closer: _CloserLook | None = None
) -> Read[ItemsAcross]:
    """Look at each queue, and closer at those that are shown; one that Redis refuses to show is broken."""
    now, existing = yield from names_at(connection)
    stores, matching = stores_of(connection, existing, names)
    looks = [_or_broken(store, look(store)) for store in stores]
    seen = zip(stores, (yield from gather(looks)), strict=True)
    present = [(store, found) for store, found in seen if not found.is_empty]
    shown = present[:QUEUES_SHOWN]
    queues = [found for _, found in shown]
    if closer:
        closer_looks = [
            _or_broken(store, closer(store, found, len(shown)))
            for store, found in shown
            if found.broken is None
        ]
        closely = {found.queue: found for found in (yield from gather(closer_looks))}
        queues = [closely.get(found.queue, found) for found in queues]
    return ItemsAcross(Timestamp(now), queues, len(stores), matching, len(present) - len(shown))


def _or_broken(store: QueueStore, look: Read[QueueItems]) -> Read[QueueItems]:
    try:
        return (yield from look)
    except RedisRefused as error:
        return QueueItems(store.name, broken=str(error))


def _failure_counts(store: QueueStore) -> Read[QueueItems]:
    failing, dead = yield store.commands(("HLEN", "failures"), ("ZCARD", "dead"))
    return QueueItems(store.name, failing=failing, dead=dead)


def _failing_items(store: QueueStore, counts: QueueItems, queues: int) -> Read[QueueItems]:
    """Read dead items, the newest first, and of some failure records the newest, for one of ``queues``."""
    rows, records = _ROWS // queues, _RECORDS // queues
    # failure records have no order: the newest of some of them
    dead, (_, flat) = yield store.commands(
        ("ZREVRANGE", "dead", 0, rows - 1), ("HSCAN", "failures", 0, "COUNT", records)
    )
    records_by_item = dict(zip(flat[::2], flat[1::2], strict=True))
    failed_at = {
        member: FailureRecord.parse(records_by_item[member]).failed_at_us
        for member in records_by_item.keys() - set(dead)  # which have records, too
    }
    newest = sorted(failed_at, key=failed_at.__getitem__, reverse=True)[:rows]
    items = newest_failure_first((yield from reading.item_infos(store, [*dead, *newest])))
    items.sort(key=lambda item: item.state != "dead")  # stable: the newest failures stay first
    return QueueItems(store.name, items, counts.failing, counts.dead)
