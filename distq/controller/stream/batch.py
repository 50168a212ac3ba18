"""What one commit carries."""

from distq.controller.stream.committer import Committer
from distq.controller.stream.routing import Route, Unrouted
from distq.redisio.commit import Commit
from distq.redisio.limits import BATCH_LIMIT, CACHED_BYTES
from distq.redisio.object_cache import CachedObject


class Batch:
    """Collects routes in their order, and commits them whenever a commit is full.

    ``keep_pending`` leaves delayed and dead items alone; without ``moves`` the stream stays where it stands.
    """

    def __init__(
        self, committer: Committer, *, priority: int = 0, keep_pending: bool = False, moves: bool = True
    ) -> None:
        self._committer = committer
        self._priority = priority
        self._keep_pending = keep_pending
        self._moves = moves
        self._keys: dict[bytes, None] = {}
        self._known: dict[str, str] = {}
        self._gone: dict[str, None] = {}
        self._unrouted: dict[str, Unrouted] = {}
        self._objects: dict[str, CachedObject] = {}
        self._dropped: dict[str, str] = {}
        self._bytes = 0
        self._version = ""

    def add(self, route: Route, version: str = "") -> None:
        """Add a route; ``version`` is where the stream stands after it, "" where more is to come first.

        A route with more keys than a commit takes is a chain of commits, of which the last is at the version,
        and the first has the object: no key is pending before it can be read.
        """
        keys = route.keys
        size = (route.cached.size if route.cached else 0) + (len(route.unrouted.why) if route.unrouted else 0)
        if self._size() + 3 + len(keys) > BATCH_LIMIT or self._bytes + size > CACHED_BYTES:
            self.flush()
        self._cache(route)
        self._bytes += size
        while self._size() + 2 + len(keys) > BATCH_LIMIT:
            room = BATCH_LIMIT - self._size()
            self._keys, self._version = dict.fromkeys(keys[:room]), ""
            self.flush()
            keys = keys[room:]
        self._keys.update(dict.fromkeys(keys))
        self._version = version
        self._known.pop(route.name, None)
        self._gone.pop(route.name, None)
        self._unrouted.pop(route.name, None)
        if route.unrouted is not None and route.unrouted.item:
            self._unrouted[route.name] = route.unrouted
        if route.known is None:
            self._gone[route.name] = None
        else:
            self._known[route.name] = route.known.line()

    def flush(self) -> None:
        """Commit what was added, if anything; raises what ``Committer.commit`` raises."""
        if not self._size():
            return
        self._committer.commit(
            Commit(
                new=self._position(),
                keys=list(self._keys),
                known=self._known,
                gone=list(self._gone),
                unrouted=dict(self._unrouted.values()),
                objects=list(self._objects.values()),
                dropped=self._dropped,
                priority=self._priority,
                keep_pending=self._keep_pending,
            )
        )
        self._keys, self._known, self._gone, self._unrouted = {}, {}, {}, {}
        self._objects, self._dropped, self._bytes = {}, {}, 0

    def drop(self, name: str, version: str) -> None:
        """Drop from the cache what is no newer than ``version``."""
        if self._size() >= BATCH_LIMIT:
            self.flush()
        self._dropped[name] = version

    def _cache(self, route: Route) -> None:
        self._objects.pop(route.name, None)
        self._dropped.pop(route.name, None)
        if route.cached is not None:
            self._objects[route.name] = route.cached
        elif route.gone_at:
            self._dropped[route.name] = route.gone_at

    def _position(self) -> str:
        if not self._moves:
            return self._committer.position
        return self._version or self._committer.step()

    def _size(self) -> int:
        cached = len(self._objects) + len(self._dropped)
        return len(self._keys) + len(self._known) + len(self._gone) + len(self._unrouted) + cached
