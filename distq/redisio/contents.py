"""The findings of ``distq check`` about values that cannot be read; this only reads.

It reads one page of each structure, so that it is quick for queues of any size.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from distq.redisio import queue_reads
from distq.redisio.connection import Connection
from distq.redisio.keys import is_key, is_queue_name, queues_key, shown, text_of, type_of
from distq.redisio.limits import CACHED_BYTES, CACHED_LIMIT, LOOK_LIMIT
from distq.redisio.object_cache import is_record
from distq.redisio.queue_store import QueueStore, queue_names
from distq.redisio.records import ClaimRecord, FailureRecord, StreamRecord, parse_fields
from distq.redisio.round_trips import run
from distq.redisio.scores import NO_SCORE, decode_due, decode_order, decode_parked, decode_time
from distq.redisio.stream_keys import OF_A_STREAM, StreamKeys
from distq.wording import counted

_FOR_PEOPLE = ("history", "links")
"""Structures that the queue can do without."""


def findings(connection: Connection) -> Iterator[str]:
    """Yield a line for each structure with unreadable content, ``WARN`` or ``FAIL`` first."""
    queues = queues_key(connection.prefix)
    others = [name for name in connection.execute("HKEYS", queues) if not is_queue_name(text_of(name))]
    if others:
        yield f"WARN  {counted(len(others), 'field')} of {queues} name no queue, say {shown(others[0])!r}."
    for name in queue_names(connection):
        yield from _of_queue(QueueStore(connection, name))


def _of_queue(store: QueueStore) -> Iterator[str]:
    yield from _of_structures(
        store, [*_MAKES_SENSE, *_FOR_PEOPLE, "flows", "arrivals", "flow_items", "meta", "wake", "trace"]
    )
    if store.read(("TYPE", "streams")) != [b"hash"]:  # a wrong type is among the findings already
        return
    for stream in run(store.connection, queue_reads.streams(store)):
        yield from _of_structures(StreamKeys(store.connection, store.name, stream), OF_A_STREAM)


def _of_structures(store: QueueStore, structures: Sequence[str]) -> Iterator[str]:
    types = [found.decode() for found in store.read(*(("TYPE", structure) for structure in structures))]
    for structure, found in zip(structures, types, strict=True):
        key = store.key(structure)
        if found not in {"none", type_of(key)}:
            which, grave = (
                ("WARN", "none is kept") if structure in _FOR_PEOPLE else ("FAIL", "nothing goes on")
            )
            yield f"{which}  {key} is a {found}, where distq keeps a {type_of(key)}: {grave}. RENAME it."
        elif structure in {"cache", "terms"}:
            yield from _of_cache(store, structure)
        elif structure in _MAKES_SENSE:
            yield from _of_structure(store, structure)
        elif structure == "meta":
            yield from _of_meta(store)


def _of_structure(store: QueueStore, structure: str) -> Iterator[str]:
    makes_sense = _MAKES_SENSE[structure]
    page = next(filter(None, queue_reads.scan(store, structure, count=LOOK_LIMIT)), [])
    odd = [member for member, value in page if not makes_sense(member, value)]
    if odd:
        what = f'{counted(len(odd), "value")} of {store.key(structure)} cannot be read, say "{shown(odd[0])}"'
        yield f'WARN  {what}. See "distq items {store.name} --state dead".'


def _of_cache(store: QueueStore, structure: str) -> Iterator[str]:
    odd = [name for name, record in _some(store, structure) if not is_record(record)]
    if odd:
        what = f'{counted(len(odd), "value")} of {store.key(structure)} cannot be read, say "{shown(odd[0])}"'
        yield f"WARN  {what}. The next event of each fixes it."


def _some(store: QueueStore, structure: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield entries of a cache, a few of the largest size at a time, up to the limit."""
    looked = size = 0
    for page in queue_reads.scan(store, structure, count=CACHED_BYTES // CACHED_LIMIT):
        yield from page
        looked, size = looked + len(page), size + sum(len(record) for _, record in page)
        if looked >= LOOK_LIMIT or size >= CACHED_BYTES:
            return


def _of_meta(store: QueueStore) -> Iterator[str]:
    names = ("layout", "stamp", "seen", "clock")
    (values,) = store.read(("HMGET", "meta", *names))
    for name, value in zip(names, values, strict=True):
        if value is not None and decode_time(value) is None:
            yield f"WARN  {name} of {store.key('meta')} is no number. The next turn of a worker fixes it."


def _is_item(item: bytes) -> bool:
    return is_key(text_of(item), len(item))


def _is_ordered(item: bytes, order: bytes) -> bool:
    return _is_item(item) and decode_order(order) != NO_SCORE


_MAKES_SENSE: Mapping[str, Callable[[bytes, bytes], bool]] = {
    **dict.fromkeys(("ready", "suspects", "held_back", "dirty"), _is_ordered),
    "delayed": lambda item, due: _is_item(item) and decode_due(due) != NO_SCORE,
    "processing": lambda item, session: _is_item(item) and session.isdigit(),
    "dead": lambda item, score: _is_item(item) and decode_parked(score) is not None,
    "claims": lambda item, text: _is_item(item) and ClaimRecord.parse(text).session != 0,
    "failures": lambda item, text: _is_item(item) and FailureRecord.parse(text).readable,
    "sessions": lambda number, deadline: number.isdigit() and decode_time(deadline) is not None,
    "workers": lambda number, text: number.isdigit() and bool(parse_fields(text)),
    "streams": lambda _, text: StreamRecord.parse(text) is not None,
}
