"""The dispositions of a handle's turns, until the calls that sent the entries fetch them."""

from collections.abc import Hashable, Sequence

from distq.redisio.limits import TURN_LIMIT
from distq.workqueue.engine import Entry
from distq.workqueue.interface import REFUSED, Disposition, Settlement

_LIMIT = 4 * TURN_LIMIT
"""How many dispositions are kept; the oldest are dropped."""


class Dispositions:
    """Dispositions that no call has fetched. Most calls fetch theirs at once.

    A call that ended with an error may be repeated, even after its session was closed. Only the thread that
    holds the turn lock may call this.
    """

    def __init__(self) -> None:
        self._last: tuple[Sequence[Entry], Sequence[Disposition]] | None = None
        """Those of the last turn, which its call nearly always fetches at once."""
        self._by_entry: dict[Hashable, Disposition] = {}

    def add(self, entries: Sequence[Entry], dispositions: Sequence[Disposition]) -> None:
        """Keep the dispositions of these entries, in their order."""
        if entries:
            if self._last is not None:
                self._sort()
            self._last = entries, dispositions

    def take(self, entries: Sequence[Entry]) -> Sequence[Disposition]:
        """Return the disposition of each entry, once; ``refused`` if there is none."""
        if not entries:
            return ()
        if (last := self._last) is not None and last[0] is entries:
            self._last = None
            return last[1]
        self._sort()
        return [self._by_entry.pop(_identity(entry), REFUSED) for entry in entries]

    def __contains__(self, entry: Entry) -> bool:
        self._sort()
        return bool(self._by_entry) and _identity(entry) in self._by_entry

    def _sort(self) -> None:
        """Keep those of the last turn by entry."""
        if self._last is None:
            return
        entries, dispositions = self._last
        self._last = None
        for entry, disposition in zip(entries, dispositions, strict=True):
            if disposition is not REFUSED:  # ``take`` returns that for those that are missing
                self._by_entry[_identity(entry)] = disposition
        for oldest in list(self._by_entry)[:-_LIMIT]:
            del self._by_entry[oldest]


def _identity(entry: Entry) -> Hashable:
    """Return the claim that a settlement ends; two failures that are added for a key are two entries."""
    return (entry.request.key, entry.request.fence) if isinstance(entry, Settlement) else entry
