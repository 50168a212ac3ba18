"""A look at a queue by flow: items that wait, since when, claimed items, and how long claims waited.

A *flow* is all items whose keys have the same text before their first slash, as a namespace; keys without a
slash are one flow. Nothing in Redis counts them. So a look takes some thousands of items of a queue of any
size: those that are next, and some that the hash of their key selects, which is as good as chance. If a queue
has only these items, the result is exact.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distq.redisio import queue_reads
from distq.redisio.durations import Durations
from distq.redisio.keys import shown
from distq.redisio.limits import FLOW_ITEMS
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import words_of
from distq.redisio.round_trips import Read, gather
from distq.redisio.scores import NO_SCORE, decode_order

_NEXT = 200
"""Items that are next: the longest waiting ones of a priority."""


@dataclass(slots=True)
class Flow:
    """The result of a look for one flow.

    ``ready``, ``held_back`` of these, and ``processing`` are estimated from a sample, to two digits.
    ``since_us`` is since when the oldest item of the sample waits. ``waiting`` is of the items that were
    claimed in the last minutes.
    """

    ready: int = 0
    held_back: int = 0
    processing: int = 0
    since_us: int | None = None
    waiting: Durations = field(default_factory=Durations)


@dataclass(frozen=True, slots=True)
class FlowLook:
    """The flows by name, None for keys without a slash; ``looked_at`` counts the ``ready`` items in it."""

    flows: Mapping[str | None, Flow]
    ready: int
    looked_at: int


def look(store: QueueStore) -> Read[FlowLook]:
    """Look at the flows of a queue, in one round trip, or two of a fair queue."""
    asked: list[Read[Any]] = [_some_items(store), queue_reads.worker_records(store)]
    (sizes, next_up, ready, suspects, held_back, held), workers = yield from gather(asked)
    n_ready, n_suspects, n_held_back, n_held, n_arrivals = sizes
    flows: defaultdict[str | None, Flow] = defaultdict(Flow)
    seen = {**suspects, **held_back, **next_up, **ready}
    if n_arrivals and seen:
        seen = yield from _by_time(store, seen)
    for item, score in seen.items():
        flow, since = flows[flow_of(item)], _since(score)
        flow.ready += 1
        if since is not None:
            flow.since_us = min(since, flow.since_us or since)
    estimated = Counter[str | None]()
    for found, total in ((ready, n_ready), (suspects, n_suspects), (held_back, n_held_back)):
        for name, items in Counter(map(flow_of, found)).items():
            estimate = _estimate(items, total, len(found))
            estimated[name] += estimate
            if found is held_back:
                flows[name].held_back = estimate
    for name, items in estimated.items():  # a sample may have fewer items of a flow than are next
        flows[name].ready = max(flows[name].ready, items)
    for name, items in Counter(map(flow_of, held)).items():
        flows[name].processing = _estimate(items, n_held, len(held))
    for name, waiting in _waits(workers.values()):
        flows[name].waiting += waiting
    return FlowLook(flows, n_ready + n_suspects + n_held_back, len(seen))


def together(flows: Iterable[Flow]) -> Flow:
    """Return some flows as one, which waits since the earliest of their times."""
    whole = Flow()
    for flow in flows:
        whole.ready += flow.ready
        whole.held_back += flow.held_back
        whole.processing += flow.processing
        whole.since_us = min((since for since in (whole.since_us, flow.since_us) if since), default=None)
        whole.waiting += flow.waiting
    return whole


def flow_of(item: bytes) -> str | None:
    """Return the flow of an item; None if it has nothing before a slash."""
    name, slash, _ = item.partition(b"/")
    return shown(name) if slash and name else None


_Items = dict[bytes, bytes]
"""Items with their scores."""


def _some_items(store: QueueStore) -> Read[tuple[Sequence[int], _Items, _Items, _Items, _Items, _Items]]:
    """Return the sizes of four structures and of arrivals, the next of the first, some items of each."""
    structures = ("ready", "suspects", "held_back", "processing")
    *sizes, next_up, ready, suspects, held_back, held = yield store.commands(
        *(("ZCARD", structure) for structure in structures),
        ("HLEN", "arrivals"),
        ("ZRANGEBYSCORE", "ready", "-inf", "+inf", "WITHSCORES", "LIMIT", 0, _NEXT),
        *(("ZSCAN", structure, 0, "COUNT", FLOW_ITEMS) for structure in structures),
    )
    found = (_items(scanned) for _, scanned in (ready, suspects, held_back, held))
    return sizes, _items(next_up), *found  # type: ignore[return-value]  # four of them


def _by_time(store: QueueStore, places: _Items) -> Read[_Items]:
    """Return the items of a fair queue with their order by time: their place is that of their flow."""
    (arrivals,) = yield store.commands(("HMGET", "arrivals", *places))
    found = zip(places.items(), arrivals, strict=True)
    return {item: place if arrived is None else arrived for (item, place), arrived in found}


def _items(flat: Sequence[bytes]) -> _Items:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _estimate(items: int, total: int, looked_at: int) -> int:
    """Return how many there are in all, to two digits, if so many of the sample were found."""
    if looked_at >= total:
        return items
    estimate = round(items * total / looked_at)
    return round(estimate, 2 - len(str(estimate)))


def _since(score: bytes) -> int | None:
    """Return since when an item is pending, µs; None of a score that no script wrote."""
    found = decode_order(score)
    return None if found == NO_SCORE else found[1]


def _waits(workers: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str | None, Durations]]:
    """Yield the reports of open handles about each flow, without those that cannot be read."""
    for about in workers:
        reported = about.get("flows")
        for each in reported if isinstance(reported, list) else ():
            if (text := words_of(each)) is None:
                continue
            word, _, name = text.partition(" ")
            yield name or None, Durations.parse(word.encode(errors="replace"))
