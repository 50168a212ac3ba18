"""A list on its way into a queue: what it changed against the known set, and what vanished."""

from collections.abc import Callable, Sequence
from typing import Protocol

from distq.controller.event import Event
from distq.controller.stream.batch import Batch, parse_known
from distq.controller.stream.committer import Committer
from distq.controller.stream.routing import Router
from distq.controller.watches import LOW_PRIORITY
from distq.errors import RedisError
from distq.informer.wire import RawObject
from distq.redisio.checkpoints import MARK

SCANS = 4
"""How often the known set is looked through for what vanished."""


class Commit(Protocol):
    """Moves the stream's position with a batch."""

    def __call__(self, new: str, batch: Batch, *, priority: int = 0, keep_pending: bool = False) -> None:
        """Commit the batch and move to ``new``."""


class Listing:
    """One list, page by page; from no checkpoint and from the mark it enqueues everything.

    What is unchanged is enqueued without disturbing its back-off, all at low priority.
    """

    def __init__(self, checkpoint: str, committer: Committer, router: Router, commit: Commit) -> None:
        self.everything = checkpoint in {"", MARK}
        self.listed: set[str] = set()
        self._committer = committer
        self._router = router
        self._commit = commit

    def page(self, objects: Sequence[RawObject]) -> None:
        """Hand over a page's objects."""
        changed, unchanged = (
            Batch(self._committing(keep_pending=False)),
            Batch(self._committing(keep_pending=True)),
        )
        for obj, line in zip(objects, self._committer.known_of([obj.key for obj in objects]), strict=True):
            self.listed.add(obj.key)
            version, before = parse_known(line)
            if version == obj.version and not self.everything:
                self._router.remember(obj)
                continue
            event = Event("create" if version is None else "update", obj, in_initial_list=True)
            route = self._router.route(event, obj, before)
            (unchanged if version == obj.version else changed).add(obj.key, route.line, route.keys)
        changed.flush()
        unchanged.flush()

    def bury_the_vanished(self) -> None:
        """Enqueue the keys of known objects that no page showed; raise RedisError where it cannot find them.

        All that was listed is known by now, so counting tells whether there are any. A scan misses some
        where Redis is restarted in the midst of it, and is then repeated.
        """
        for _ in range(SCANS):
            if self._committer.known_count() <= len(self.listed):
                return
            vanished = Batch(self._committing(keep_pending=False))
            for name, line in self._committer.store.known():
                if name not in self.listed:
                    vanished.add(name, None, self._router.keys_of_known(name, line))
            vanished.flush()
        raise RedisError(f"more is known of {self._committer.store.stream} than a scan shows")

    def _committing(self, *, keep_pending: bool) -> Callable[[Batch], None]:
        def commit(batch: Batch) -> None:
            self._commit(self._committer.step(), batch, priority=LOW_PRIORITY, keep_pending=keep_pending)

        return commit
