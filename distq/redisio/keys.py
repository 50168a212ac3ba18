"""The layout of a queue in Redis, and the valid names of queues and items.

All keys of a queue are named ``prefix:{name}:...``. They share the hash tag ``{name}``, so that it lives in
one cluster slot. The prefix is ``distq`` unless it is configured; all keys have it.

    ready       ZSET  item -> order; the queue. Disjoint from suspects, held_back, processing and delayed.
    suspects    ZSET  item -> order: ready items that are claimed alone. Disjoint as ready is.
    held_back   ZSET  item -> order: ready items of a flow with all its claims. Disjoint as ready is.
    dirty       ZSET  item -> order: added again while claimed. A subset of processing.
    processing  ZSET  item -> session number. The same members as claims.
    claims      HASH  item -> "session fence order"
    delayed     ZSET  item -> due time and priority. Disjoint from ready and dirty.
    failures    HASH  item -> "count crashes failed_at reason text"; of live or dead items only
    dead        ZSET  item -> dead since, µs, plus 2**52 if waiting may help. Nothing trims it.
    sessions    ZSET  session number -> deadline on the claim clock
    workers     HASH  session number -> JSON, gone with the session
    streams     HASH  stream -> "epoch position batch JSON"
    known:S     HASH  object -> its state that the stream S handed over last
    cache:S     HASH  object -> its version and bytes, if the stream S is cached
    terms:S     HASH  object -> its version, and its terms in the index, or "gone"
    index:S     ZSET  "term NUL object", all of score 0: finds objects in cache:S
    meta        HASH  layout, clocks, paused, fair_by, entered, bounded, catching_up, cover, and others
    history     HASH  the queue in numbers, every ten seconds and every five minutes; see ``history``
    flows       ZSET  "priority flow" -> order: the ends of the flows of a fair queue
    arrivals    HASH  item -> its order by time, for ready and claimed items of a fair queue
    flow_items  ZSET  "flow NUL letter item", all of score 0: claimed, let-in and held-back items
    links       ZSET  "first traceparent" -> last: the stamps that a span gave to items it made pending
    wake        LIST  at most one token, which wakes a sleeper; a lost one only costs time
    trace       STREAM  the calls of the scripts, while a trace is on; see ``trace``
    audit       STREAM  the actions of users on the queue; see ``audit_log``

Besides, ``prefix:queues`` is a HASH of the existing queues, ``prefix:election:NAME`` a HASH for each
election in Redis, and ``prefix:ended_login:ID`` a STRING for each ended login to the dashboard.
"""

import re
from collections.abc import Iterable, Sequence

from distq.config import Settings
from distq.errors import InvalidKey, InvalidQueueName
from distq.redisio.limits import KEY_BYTES
from distq.wording import a_type

LAYOUT = 1
"""The version of the layout above; a queue with a higher one is refused."""

_SORTED_SETS = {
    "ready",
    "suspects",
    "held_back",
    "dirty",
    "processing",
    "delayed",
    "dead",
    "sessions",
    "index",
    "links",
    "flows",
    "flow_items",
}
_OTHER_TYPES = {"wake": "list", "trace": "stream", "audit": "stream"}

_QUEUE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_NO_KEY = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


def queue_key(queue: str, name: str, *, prefix: str = Settings.prefix) -> str:
    """Return the Redis key of one of a queue's structures."""
    return f"{prefix}:{{{queue}}}:{name}"


def queues_key(prefix: str) -> str:
    """Return the Redis key of the hash of existing queues."""
    return f"{prefix}:queues"


def election_key(name: str, *, prefix: str) -> str:
    """Return the Redis key of an election's record."""
    return f"{prefix}:election:{name}"


def ended_login_key(login: str, *, prefix: str) -> str:
    """Return the Redis key of an ended login to the dashboard."""
    return f"{prefix}:ended_login:{login}"


def type_of(key: str) -> str:
    """Return the Redis type that one of our keys has."""
    structure = key.partition("}:")[2].partition(":")[0]
    return "zset" if structure in _SORTED_SETS else _OTHER_TYPES.get(structure, "hash")


def is_queue_name(name: str) -> bool:
    """Return whether a queue may have this name."""
    return bool(_QUEUE_NAME.fullmatch(name))


def validate_queue_name(name: str) -> str:
    """Return the name; raise InvalidQueueName unless it can be a key, a file name and a label."""
    if not isinstance(name, str) or not is_queue_name(name):
        raise InvalidQueueName(
            f"bad queue name {name!r:.80}. Use 1 to 63 letters, digits, dots, dashes and underscores, "
            "a letter or digit first."
        )
    return name


def validate_key(key: str) -> bytes:
    """Return the key as bytes; raise InvalidKey unless it is 1 to 1024 bytes of UTF-8 without controls."""
    if not isinstance(key, str):
        raise InvalidKey(f"bad key {key!r:.80}: {a_type(key)}. Use a str.")
    if not key:
        raise InvalidKey("bad key '': empty. Use namespace/name, or any other text.")
    if _CONTROL.search(key):
        raise InvalidKey(f"bad key {key!r:.80}: control characters. Use printable text.")
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        raise InvalidKey(f"bad key {key!r:.80}: not valid Unicode. Use text that UTF-8 can hold.") from None
    if len(encoded) > KEY_BYTES:
        raise InvalidKey(f"bad key {key[:40]!r}...: {len(encoded)} bytes. Use at most {KEY_BYTES}.")
    return encoded


# Other programs may have written items that are no valid keys. A worker makes them dead. People read and name
# them with the invalid bytes as escapes, ``caf\xe9``.


def text_of(item: bytes) -> str:
    """Return any item as text, which ``bytes_of`` turns back."""
    return item.decode(errors="surrogateescape")


def texts_of(items: Sequence[bytes]) -> list[str]:
    """Return ``text_of`` of each."""
    return [item.decode(errors="surrogateescape") for item in items]


def bytes_of(text: str) -> bytes:
    """Return the item of a text that ``text_of`` returned."""
    return text.encode(errors="surrogateescape")


def all_bytes_of(texts: Iterable[str]) -> list[bytes]:
    """Return ``bytes_of`` of each."""
    return [text.encode(errors="surrogateescape") for text in texts]


def is_key(text: str, length: int) -> bool:
    """Return whether ``validate_key`` would accept a text that ``text_of`` made of ``length`` bytes."""
    return 0 < length <= KEY_BYTES and not _NO_KEY.search(text)


def are_keys(texts: Sequence[str], items: Sequence[bytes]) -> bool:
    """Return whether ``is_key`` holds for all; one check of all texts together if it does."""
    if not all(items) or max(map(len, items)) > KEY_BYTES:
        return False
    together = "".join(texts)
    return together.isprintable() or not _NO_KEY.search(together)


def shown(item: bytes) -> str:
    """Return an item as people see it: a valid key unchanged, otherwise with invalid bytes as escapes."""
    text = text_of(item)
    if not _NO_KEY.search(text):
        return text
    return _NO_KEY.sub(lambda odd: "".join(f"\\x{byte:02x}" for byte in bytes_of(odd[0])), text)


def named(text: str) -> list[bytes]:
    """Return the items of this name: the invalid item that is shown so, and the key; raise InvalidKey."""
    item = validate_key(text)
    odd = _ESCAPE.sub(lambda escape: bytes.fromhex(escape[1].decode()), item)
    return [item] if is_key(text_of(odd), len(odd)) else [odd, item]
