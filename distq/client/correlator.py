"""Correlates an event before it is sent: counts equal ones, merges similar ones, or leaves it out.

Events are equal with the same text about the same object, and similar where only their messages differ.
Source, with all numbers: client-go tools/record EventCorrelator.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from distq.client.objects import Object, metadata
from distq.clock import Clock

MERGED_FROM = 10
"""After so many similar events one is counted for all that follow."""

SIMILAR_FOR = 600.0
"""Seconds after which a similar event begins anew."""

BURST = 25
"""Events that may be sent at once about one object."""

REFILL = 300.0
"""Seconds after which one more may be sent."""

REMEMBERED = 4096
"""Objects and events that are remembered: those that came last."""

MERGED = "(combined from similar events): "

_Value = TypeVar("_Value")
_Key = tuple[Any, ...]


class Correlated(NamedTuple):
    """An event to send; with a ``patch`` the event exists, and the patch counts it."""

    event: Object
    patch: Object | None


class _Remembered(OrderedDict[_Key, _Value]):
    """The values used last, by key; older ones are forgotten."""

    def keep(self, key: _Key, value: _Value) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > REMEMBERED:
            self.popitem(last=False)


@dataclass
class _Similar:
    """The messages of similar events, and when the last one came."""

    last: float
    messages: set[str] = field(default_factory=set)


class _Sent(NamedTuple):
    """The event that counts all equal ones."""

    name: str
    first: str
    times: int


@dataclass
class _Bucket:
    """The number of events that may be sent about an object."""

    tokens: float
    filled: float


class EventCorrelator:
    """Remembers recorded events, to decide how to send the next one. One thread at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._similar: _Remembered[_Similar] = _Remembered()
        self._sent: _Remembered[_Sent] = _Remembered()
        self._buckets: _Remembered[_Bucket] = _Remembered()

    def correlate(self, event: Object) -> Correlated | None:
        """Return the event to send, or its patch; None where there were too many about its object."""
        merged, key = self._merge(event)
        counted = self._count(merged, key)  # before the token: the next event counts one that is left out
        return counted if self._has_token(event) else None

    def sent(self, stored: Object) -> None:
        """Remember an event as the API server stored it."""
        self._sent.keep(_equal(stored), _as_sent(stored))

    def _merge(self, event: Object) -> tuple[Object, _Key]:
        """Return the event, or the one that counts all similar ones, and the key by which it is counted."""
        now, key = self._clock.monotonic(), (*_about(event), event["reason"])
        similar = self._similar.get(key)
        if similar is None or now - similar.last > SIMILAR_FOR:
            similar = _Similar(now)
        similar.messages.add(event["message"])
        similar.last = now
        self._similar.keep(key, similar)
        if len(similar.messages) < MERGED_FROM:
            return event, _equal(event)
        similar.messages.pop()  # any of them, as client-go: so they are bounded
        return event | {"message": MERGED + event["message"]}, key

    def _count(self, event: Object, key: _Key) -> Correlated:
        before, patch = self._sent.get(key), None
        if before is not None:
            about = event["metadata"] | {"name": before.name}
            event = event | {"metadata": about, "firstTimestamp": before.first, "count": before.times + 1}
            patch = {name: event[name] for name in ("count", "lastTimestamp", "message")}
        self._sent.keep(key, _as_sent(event))
        return Correlated(event, patch)

    def _has_token(self, event: Object) -> bool:
        now, key = self._clock.monotonic(), _about(event)
        bucket = self._buckets.get(key) or _Bucket(BURST, now)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.filled) / REFILL)
        bucket.filled = now
        self._buckets.keep(key, bucket)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def _about(event: Object) -> _Key:
    about, source = event["involvedObject"], event.get("source") or {}
    names = ("kind", "namespace", "name", "uid", "apiVersion")
    return (source.get("component"), *(about.get(name) for name in names), event["type"])


def _equal(event: Object) -> _Key:
    field_path = event["involvedObject"].get("fieldPath")
    return (*_about(event), field_path, event["reason"], event["message"])


def _as_sent(event: Object) -> _Sent:
    return _Sent(metadata(event)["name"], event["firstTimestamp"], event["count"])
