"""The layout of a queue in Redis, and what may name a queue and an item.

All keys of a queue are named ``prefix:{name}:...``. They share the hash tag ``{name}``, so that it lives in
one cluster slot. The prefix is ``distq`` unless the settings say another; no key is outside of it.

    ready       ZSET  item -> order; the queue. Disjoint from processing and delayed.
    dirty       ZSET  item -> order: added again while claimed. A subset of processing.
    processing  ZSET  item -> session number. The same members as claims.
    claims      HASH  item -> "session fence order"
    delayed     ZSET  item -> due time and priority. Disjoint from ready and dirty.
    failures    HASH  item -> "count crashes failed_at reason text"; of live or dead items only
    dead        ZSET  item -> parked at, µs. Nothing trims it.
    sessions    ZSET  session number -> deadline on the claim clock
    workers     HASH  session number -> JSON, gone with the session
    streams     HASH  stream -> "epoch position batch JSON"
    known:S     HASH  object -> what was last handed over of it by the stream S
    meta        HASH  layout, clocks, paused, cover, emptying, buckets, session records
    wake        LIST  at most one token, which wakes a sleeper; it owns nothing

``prefix:queues`` beside them is a HASH of the queues that exist, ``prefix:election:NAME`` one for each
election in Redis.
"""

import re

from distq.config import Settings
from distq.errors import InvalidKey, InvalidQueueName

LAYOUT = 1
"""The version of the layout above; a queue with a higher one is refused."""

_QUEUE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def queue_key(queue: str, name: str, *, prefix: str = Settings.prefix) -> str:
    """Return the Redis key of one of a queue's structures."""
    return f"{prefix}:{{{queue}}}:{name}"


def queues_key(prefix: str) -> str:
    """Return the Redis key of the hash of queues that exist."""
    return f"{prefix}:queues"


def election_key(name: str, *, prefix: str) -> str:
    """Return the Redis key of an election's record."""
    return f"{prefix}:election:{name}"


def validate_queue_name(name: str) -> str:
    """Return the name; raise InvalidQueueName for one that could not be a key, a file or a label."""
    if not isinstance(name, str) or not _QUEUE_NAME.fullmatch(name):
        raise InvalidQueueName(
            f"bad queue name {name!r:.80}. Use 1 to 63 letters, digits, dots, dashes and underscores, "
            "a letter or digit first."
        )
    return name


def validate_key(key: str) -> bytes:
    """Return the key as bytes; raise InvalidKey unless it is 1 to 1024 bytes of UTF-8 without controls."""
    if not isinstance(key, str):
        raise InvalidKey(f"bad key {key!r:.80}: a {type(key).__name__}. Use a str.")
    if not key:
        raise InvalidKey("bad key '': empty. Use namespace/name, or any other text.")
    if _CONTROL.search(key):
        raise InvalidKey(f"bad key {key!r:.80}: control characters. Use printable text.")
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        raise InvalidKey(f"bad key {key!r:.80}: not valid Unicode. Use text that UTF-8 can hold.") from None
    if len(encoded) > 1024:
        raise InvalidKey(f"bad key {key[:40]!r}...: {len(encoded)} bytes. Use at most 1024.")
    return encoded
