"""Mistakes in how objects are shown to each other's functions, which the model must notice."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

from distq.controller.cached import event_context
from distq.controller.cached.event_context import EventContext
from distq.controller.cached.stream_cache import StreamCache
from distq.controller.stream.catching_up import CatchingUp
from distq.controller.stream.routing import Router
from distq.controller.stream.stream_source import StreamSource
from distq.redisio.commit import Commit
from distq.redisio.object_cache import CachedObject

_read, _begin = StreamCache.read, EventContext.begin


@dataclass(frozen=True)
class JoinedControl:
    """A mistake, and a schedule that shows it; ``--control`` finds another where they are drawn otherwise."""

    name: str
    seed: int
    planted: Callable[[], AbstractContextManager[object]]


def _reads_before_it_shows(cache: StreamCache, ask: Callable[..., Any]) -> Any:
    stream = event_context.current()
    if stream is None or stream.place == cache.place:
        return _read(cache, ask)
    unshown, stream._unpublished = stream._unpublished, None
    answer = _read(cache, ask)
    stream._unpublished = unshown
    stream.publish()
    return answer


def _begins_present_objects(
    stream: EventContext, name: str, cached: CachedObject | None, version: str
) -> None:
    _begin(stream, name, cached, version)
    if cached is None:
        stream._unpublished = None


def _shows_with_position(source: StreamSource, name: str, cached: CachedObject | None, version: str) -> None:
    objects, dropped = ([cached], {}) if cached else ([], {name: version})
    position = source._committer.position
    source._committer.commit(
        Commit(new=version if position.isdigit() else position, objects=objects, dropped=dropped)
    )


def _nothing(router: Router, names: Sequence[str], cached_of: object) -> dict[str, Any]:
    return {}


def _ends_at_once(catching_up: CatchingUp) -> None:
    catching_up._end()


_patched = partial(partial, mock.patch.object)

CONTROLS = [
    JoinedControl("nothing is published", 9, _patched(EventContext, "publish", lambda _: None)),
    JoinedControl("read before it is shown", 9, _patched(StreamCache, "read", _reads_before_it_shows)),
    JoinedControl(
        "deletions are not published", 42, _patched(EventContext, "begin", _begins_present_objects)
    ),
    JoinedControl("shown with the position", 55, _patched(StreamSource, "_publish", _shows_with_position)),
    JoinedControl("waits for itself", 3, _patched(EventContext, "waits_for_itself", lambda *_: False)),
    JoinedControl("nothing waits for the caches", 317, _patched(CatchingUp, "begin", lambda _: None)),
    JoinedControl("one of the caches is enough", 317, _patched(CatchingUp, "_look", _ends_at_once)),
    JoinedControl("not asked about what was", 16, _patched(Router, "replaced", _nothing)),
]


def planted(name: str | None) -> AbstractContextManager[object]:
    """Plant the mistake of this name, if any."""
    return next((each.planted() for each in CONTROLS if each.name == name), nullcontext())
