"""The sink of a Reflector: a cache in memory, or a stream into Redis."""

from collections.abc import Sequence
from typing import Protocol

from distq.informer.wire import RawObject, WatchEvent


class Sink(Protocol):
    """Takes the events of a Reflector, in order and from one thread.

    Any error that it raises makes the Reflector connect anew from ``position()``, after a back-off unless it
    is PositionMoved; LeaseLost and LayoutTooNew end the Reflector's run. So does ConfigError from
    ``position``, ``connected``, ``expired`` and ``rewound``: an error raised while objects are handed over
    concerns one of them.
    """

    def position(self) -> str:
        """Return the version to resume from; "" asks for a list."""

    def wants_bookmarks(self) -> bool:
        """Return whether to ask for a brief watch, before whose end the API server sends bookmarks."""

    def connected(self, present: str) -> None:
        """Learn that a watch from the position was opened; ``present`` was the resource's version before."""

    def events(self, events: Sequence[WatchEvent], since: float) -> None:
        """Take events in their order; the first came at ``since`` on the machine's monotonic clock."""

    def begin_list(self) -> None:
        """Learn that a list begins; one that had begun before is void."""

    def page(self, objects: Sequence[RawObject]) -> None:
        """Take a part of the list; of a streamed one an object may come again, changed."""

    def unlist(self, obj: RawObject) -> None:
        """Learn that an object of the list under way was deleted meanwhile; of streamed lists only."""

    def end_list(self, version: str) -> None:
        """Learn that the list is whole and shows the resource at ``version``."""

    def expired(self) -> None:
        """Learn that the API server no longer knows the position; ``position()`` must ask for a list next."""

    def rewound(self, version: str) -> None:
        """Learn that the cluster is at ``version``, before the position: it was restored from a backup."""

    def tick(self) -> None:
        """Do periodic work; called several times a second, except while a list is being read."""


class PositionMoved(Exception):
    """Raised by a sink whose position is now another one: connect anew, from there."""
