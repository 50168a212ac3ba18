"""A commit: the changes that a leader makes in one step, for the script and for its specification."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Self

from distq.redisio.keys import all_bytes_of, bytes_of, validate_key
from distq.redisio.limits import BATCH_LIMIT, CACHED_BYTES, TERMS_LIMIT
from distq.redisio.object_cache import CachedObject, records_of
from distq.redisio.scores import validate_priority

_to_json = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Enqueue keys and move a stream to the position ``new``, in one step or not at all.

    At most 1000 of keys, known, gone, unrouted, objects and dropped together, and 1 MiB of objects.
    """

    new: str
    """The position afterwards; "" removes the record and the cache."""
    keys: Sequence[str | bytes] = ()
    """Keys as bytes have passed ``validate_key``."""
    priority: int = 0
    keep_pending: bool = False
    """Leave delayed and dead items alone."""
    delay: int = 0
    """µs after which the keys become pending."""
    known: Mapping[str, str] = field(default_factory=dict)
    gone: Sequence[str] = ()
    unrouted: Mapping[bytes, str] = field(default_factory=dict)
    """Items that become dead, with the reason: objects on which the watch's functions failed.

    The other known and gone objects are no longer dead for that reason.
    """
    parked_as: str = ""
    """Prefix of the names of dead objects."""
    objects: Sequence[CachedObject] = ()
    """Objects to put into the cache, unless a newer version is there. No name is also in ``dropped``."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Objects, by name, that were deleted as of a version; a newer version in the cache stays."""
    clear_cache: bool = False
    """Empty the cache first."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Information about the stream for people and for the next leader."""
    link: str = ""
    """The traceparent of the span that commits, empty if there is none."""
    epoch: str = ""
    after: str = ""
    """The batch before this one, "" for the first: this shows whether Redis lost a commit of the stream."""
    batch: str = ""
    replaces: str = ""
    """The stored epoch that this commit may replace although it is higher than ours."""

    @property
    def is_empty(self) -> bool:
        """Return whether the commit changes only the position."""
        return not (self.keys or self.known or self.gone or self.unrouted or self.objects or self.dropped)

    def repeats(self, last: str) -> bool:
        """Return whether it is its stream's last batch, sent again, and not a report beside that batch."""
        return self.batch == last != self.after

    def items(self) -> list[bytes]:
        """Return the keys as items, each once. Raises InvalidKey."""
        # a list, here and below: a generator costs a call more for each
        keys = [key if isinstance(key, bytes) else validate_key(key) for key in self.keys]
        return list(dict.fromkeys(keys))

    def about_text(self) -> str:
        """Return ``about`` as stored in the stream's record."""
        return _to_json(self.about)

    def inputs(self) -> dict[str, Any]:
        """Return the inputs of the script. Raises InvalidKey, InvalidPriority, ValueError for too much."""
        items, cached = self.items(), records_of(self.objects, self.dropped)
        self._require_bounds(len(items), cached)
        # spaces separate them in the stream's record
        if any(text.split() != [text] for text in (self.epoch, self.batch, self.new or "-")):
            raise ValueError(
                f"epoch {self.epoch!r}, batch {self.batch!r} and position {self.new!r} must be single words"
            )
        unrouted = [word for item, why in self.unrouted.items() for word in (item.decode(), why)]
        return {
            "epoch": self.epoch,
            "replaces": self.replaces,
            "after": self.after,
            "new": self.new,
            "batch": self.batch,
            "about": self.about_text(),
            "priority": validate_priority(self.priority),
            "keep_pending": int(self.keep_pending),
            "n_items": len(items),
            "n_known": len(self.known),
            "n_cached": len(cached),
            "clears_cache": int(self.clear_cache or not self.new),
            "unrouted": _to_json(unrouted),
            "parked_as": bytes_of(self.parked_as),
            "link": self.link,
            "terms_limit": TERMS_LIMIT,
            "delay": self.delay,
            "rest": [
                *items,
                *all_bytes_of(chain(chain.from_iterable(self.known.items()), self.gone)),
                *chain.from_iterable([(name, *row) for name, row in cached.items()]),
            ],
        }

    def _require_bounds(self, n_items: int, cached: Mapping[bytes, tuple[bytes, bytes]]) -> None:
        counts = {"keys": n_items, "known": len(self.known), "gone": len(self.gone), "cached": len(cached)}
        counts |= {"unrouted": len(self.unrouted)} if self.unrouted else {}
        if sum(counts.values()) > BATCH_LIMIT:
            raise ValueError(f"a commit of {', '.join(f'{count} {what}' for what, count in counts.items())}")
        # dropped objects have no record: their bytes do not count
        size = sum([len(terms) + len(record) for terms, record in cached.values() if record])
        if size > CACHED_BYTES:
            raise ValueError(f"a commit of {size} bytes of cached objects")

    def halves(self, step: str) -> tuple[Self, Self]:
        """Return two commits in place of this one, the first to the position ``step``.

        The first has half of the objects and nothing else: no key is pending before its object can be read.
        """
        dropped, middle = list(self.dropped.items()), (len(self.objects) + len(self.dropped)) // 2
        left = max(0, middle - len(self.objects))
        first = type(self)(
            new=step,
            objects=self.objects[:middle],
            dropped=dict(dropped[:left]),
            clear_cache=self.clear_cache,
        )
        rest = replace(self, objects=self.objects[middle:], dropped=dict(dropped[left:]), clear_cache=False)
        return first, rest
