"""The contents of one commit, and the events of a watch on their way into commits."""

from collections.abc import Sequence

from distq.controller.event import EventType
from distq.controller.stream.committer import NEVER, Committer, Known
from distq.controller.stream.routing import Replaced, Route, Router, RoutingError, Unrouted
from distq.informer.wire import WatchEvent
from distq.redisio.commit import Commit
from distq.redisio.limits import BATCH_LIMIT, CACHED_BYTES
from distq.redisio.object_cache import CachedObject

_TYPES: dict[str, EventType] = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}


class Batch:
    """Collects routes in their order, and commits them whenever a commit is full.

    ``keep_pending`` leaves delayed and dead items alone; without ``moves`` the stream stays at its position.
    """

    def __init__(
        self, committer: Committer, *, priority: int = 0, keep_pending: bool = False, moves: bool = True
    ) -> None:
        self._committer = committer
        self._priority = priority
        self._keep_pending = keep_pending
        self._moves = moves
        self._clear()

    def _clear(self) -> None:
        self._keys: dict[bytes, None] = {}
        self._known: dict[str, Known | None] = {}
        """By an object's name, None if it is gone; the last route of it counts."""
        self._unrouted: dict[str, Unrouted] = {}
        self._objects: dict[str, CachedObject] = {}
        """The objects for the cache; no name of theirs is in ``_dropped``."""
        self._dropped: dict[str, str] = {}
        self._rows = self._bytes = 0
        """Of all routes added, also of those that a later one replaced: each event would pay for a count."""
        self._version = ""

    def add(self, route: Route, version: str = "") -> None:
        """Add a route; ``version`` is the stream's position after it, "" if more routes must come first.

        A route with more keys than a commit takes is a chain of commits, of which the last is at the version.
        """
        name, keys, known, cached, gone_at, unrouted = route
        size = (cached.size if cached else 0) + (len(unrouted.why) if unrouted else 0)
        in_cache = cached is not None or bool(gone_at)
        rows = 1 + (unrouted is not None)
        if self._rows + len(keys) + rows + in_cache > BATCH_LIMIT or self._bytes + size > CACHED_BYTES:
            self.flush()
        if in_cache:  # in the first commit: no key is pending before its object can be read
            self._objects.pop(name, None)
            self._dropped.pop(name, None)
            if cached is not None:
                self._objects[name] = cached
            else:
                self._dropped[name] = gone_at
            self._rows += 1
        self._bytes += size
        while self._rows + len(keys) + rows > BATCH_LIMIT:
            room = BATCH_LIMIT - self._rows
            self._keys, self._version, self._rows = dict.fromkeys(keys[:room]), "", BATCH_LIMIT
            self.flush()
            keys = keys[room:]
        self._keys.update(dict.fromkeys(keys))
        self._rows += len(keys) + rows
        # in the last commit: a leader that starts the chain over must not find the object handed over
        self._known[name] = known
        self._version = version
        self._unrouted.pop(name, None)
        if unrouted is not None and unrouted.item:
            self._unrouted[name] = unrouted

    def drop(self, name: str, version: str) -> None:
        """Drop the object from the cache unless it is newer than ``version``."""
        if self._rows >= BATCH_LIMIT:
            self.flush()
        self._dropped[name] = version
        self._rows += 1

    def flush(self) -> None:
        """Commit the routes added, if any; raises as ``Committer.commit`` does."""
        if not self._rows:
            return
        committer = self._committer
        committer.commit(
            Commit(
                new=(self._version or committer.step()) if self._moves else committer.position,
                keys=list(self._keys),
                known={name: known.line() for name, known in self._known.items() if known is not None},
                gone=[name for name, known in self._known.items() if known is None],
                unrouted=dict(self._unrouted.values()),
                objects=list(self._objects.values()),
                dropped=self._dropped,
                priority=self._priority,
                keep_pending=self._keep_pending,
            )
        )
        self._clear()


def hand_over(events: Sequence[WatchEvent], router: Router, committer: Committer) -> None:
    """Commit the routes of events, in their order, in as few commits as possible.

    If a function fails on an event and the stream is to stop there, the events before it are committed.
    Raises RoutingError, and as ``Committer.commit`` does.
    """
    known: dict[str, Known] = {}
    replaced: dict[str, Replaced] = {}
    if router.compares:
        router.recall(events, committer)
    if router.mapped:
        names = list(dict.fromkeys(event.object.key for event in events))
        known = dict(zip(names, committer.known_of(names), strict=True))
        updated = (event.object.key for event in events if event.type == "MODIFIED")
        replaced = router.replaced(updated, committer)
    batch = Batch(committer)
    for event in events:
        obj, name = event.object, event.object.key
        try:
            route = router.route(_TYPES[event.type], obj, known.get(name, NEVER), replaced.get(name))
        except RoutingError:
            batch.flush()
            raise
        batch.add(route, obj.version)
        if router.mapped:  # what the next event of this object replaces
            known[name], replaced[name] = route.known or NEVER, obj
    batch.flush()
