"""The layout of a queue in Redis, and what may name a queue and an item.

All keys of a queue are named ``prefix:{name}:...``. They share the hash tag ``{name}``, so that it lives in
one cluster slot. The prefix is ``distq`` unless the settings say another; no key is outside of it.

    ready       ZSET  item -> order; the queue. Disjoint from suspects, processing and delayed.
    suspects    ZSET  item -> order: what is ready, too, and is to be claimed alone. Disjoint as ready is.
    dirty       ZSET  item -> order: added again while claimed. A subset of processing.
    processing  ZSET  item -> session number. The same members as claims.
    claims      HASH  item -> "session fence order"
    delayed     ZSET  item -> due time and priority. Disjoint from ready and dirty.
    failures    HASH  item -> "count crashes failed_at reason text"; of live or dead items only
    dead        ZSET  item -> parked at, µs, and 2**52 where time may mend why. Nothing trims it.
    sessions    ZSET  session number -> deadline on the claim clock
    workers     HASH  session number -> JSON, gone with the session
    streams     HASH  stream -> "epoch position batch JSON"
    known:S     HASH  object -> what was last handed over of it by the stream S
    cache:S     HASH  object -> version and bytes of it, where the stream S is cached
    terms:S     HASH  object -> version of it, and the terms that find it, or "gone"
    index:S     ZSET  "term NUL object", all of score 0: what finds it in cache:S
    meta        HASH  layout, clocks, paused, catching_up, cover, emptying, buckets, session records, trace
    history     HASH  the queue in numbers, every ten seconds and every five minutes; see ``history``
    links       ZSET  "first traceparent" -> last: which stamps a span gave to what it made pending
    wake        LIST  at most one token, which wakes a sleeper; it owns nothing
    trace       STREAM  what each script did, while somebody wants to know; see ``trace``

``prefix:queues`` beside them is a HASH of the queues that exist, ``prefix:election:NAME`` one for each
election in Redis, ``prefix:ended_login:ID`` a STRING for each login to the dashboard that somebody ended.
"""

import re
from collections.abc import Sequence

from distq.config import Settings
from distq.errors import InvalidKey, InvalidQueueName
from distq.redisio.limits import KEY_BYTES
from distq.wording import a_type

LAYOUT = 1
"""The version of the layout above; a queue with a higher one is refused."""

_SORTED_SETS = {"ready", "suspects", "dirty", "processing", "delayed", "dead", "sessions", "index", "links"}
_OTHER_TYPES = {"wake": "list", "trace": "stream"}

_QUEUE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_NO_KEY = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


def queue_key(queue: str, name: str, *, prefix: str = Settings.prefix) -> str:
    """Return the Redis key of one of a queue's structures."""
    return f"{prefix}:{{{queue}}}:{name}"


def queues_key(prefix: str) -> str:
    """Return the Redis key of the hash of queues that exist."""
    return f"{prefix}:queues"


def election_key(name: str, *, prefix: str) -> str:
    """Return the Redis key of an election's record."""
    return f"{prefix}:election:{name}"


def ended_login_key(login: str, *, prefix: str) -> str:
    """Return the Redis key that says that a login to the dashboard was ended."""
    return f"{prefix}:ended_login:{login}"


def type_of(key: str) -> str:
    """Return the type of a key of ours, in Redis' words."""
    structure = key.partition("}:")[2].partition(":")[0]
    return "zset" if structure in _SORTED_SETS else _OTHER_TYPES.get(structure, "hash")


def is_queue_name(name: str) -> bool:
    """Return whether a queue may have this name."""
    return bool(_QUEUE_NAME.fullmatch(name))


def validate_queue_name(name: str) -> str:
    """Return the name; raise InvalidQueueName for one that could not be a key, a file or a label."""
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


# Somebody else than distq may have written items that are no keys. A worker sets them aside; people read and
# name them with their odd bytes as escapes, ``caf\xe9``.


def text_of(item: bytes) -> str:
    """Return an item as text that ``bytes_of`` turns back, whatever it is."""
    return item.decode(errors="surrogateescape")


def texts_of(items: Sequence[bytes]) -> list[str]:
    """Return ``text_of`` of each."""
    return [item.decode(errors="surrogateescape") for item in items]


def bytes_of(text: str) -> bytes:
    """Return the item that ``text_of`` made text."""
    return text.encode(errors="surrogateescape")


def is_key(text: str, length: int) -> bool:
    """Return whether ``validate_key`` would accept what ``text_of`` made of so many bytes."""
    return 0 < length <= KEY_BYTES and not _NO_KEY.search(text)


def are_keys(texts: Sequence[str], items: Sequence[bytes]) -> bool:
    """Return whether ``is_key`` holds for all, by one look at all of them where it does."""
    lengths = list(map(len, items))
    if not 0 < min(lengths) <= max(lengths) <= KEY_BYTES:
        return False
    together = "".join(texts)
    return together.isprintable() or not _NO_KEY.search(together)


def shown(item: bytes) -> str:
    """Return an item as people see it: a key as it is, of anything else the odd bytes as escapes."""
    text = text_of(item)
    if not _NO_KEY.search(text):
        return text
    return _NO_KEY.sub(lambda odd: "".join(f"\\x{byte:02x}" for byte in bytes_of(odd[0])), text)


def named(text: str) -> list[bytes]:
    """Return the items that people name so: what is no key and is shown so, and the key; raise InvalidKey."""
    item = validate_key(text)
    odd = _ESCAPE.sub(lambda escape: bytes.fromhex(escape[1].decode()), item)
    return [item] if is_key(text_of(odd), len(odd)) else [odd, item]
