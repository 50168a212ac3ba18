"""What a queue may still hold when all work is done: nothing but what is open and watched."""

from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore

_SORTED_SETS = ("ready", "suspects", "held_back", "flow_items", "dirty", "processing", "delayed")
_HASHES = ("claims", "failures")


def left_over(
    connection: Connection, queue: str, *, handles: int, objects: int, streams: int
) -> dict[str, int]:
    """Return by name how much a queue at rest holds too much; empty when the promise of bounded state holds.

    ``handles`` are open, ``objects`` exist in each of ``streams`` watched resources.
    """
    store = QueueStore(connection, queue)
    *nothing, sessions, workers, tokens, names = store.read(
        *(("ZCARD", name) for name in _SORTED_SETS),
        *(("HLEN", name) for name in _HASHES),
        ("ZCARD", "sessions"),
        ("HLEN", "workers"),
        ("LLEN", "wake"),
        ("HKEYS", "streams"),
    )
    known = store.read(*(("HLEN", f"known:{name.decode()}") for name in names))
    excess = dict(zip((*_SORTED_SETS, *_HASHES), nothing, strict=True))
    excess |= {"sessions": abs(sessions - handles), "workers": abs(workers - handles)}
    excess |= {"wake": max(0, tokens - 1), "streams": abs(len(names) - streams)}
    excess |= {"known": sum(abs(count - objects) for count in known)}
    return {name: count for name, count in excess.items() if count}
