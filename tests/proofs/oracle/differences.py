"""The documented differences, one method each: what makes a history of the original one of ours.

All that no method here explains must be the same. ``test_differences.py`` shows each of them.
"""

from dataclasses import dataclass


@dataclass
class Item:
    """What has to be known of an item to translate; times in µs since the beginning."""

    pending: bool = False
    """Now: it is queued, or dirty while it is claimed."""
    due: int | None = None
    """When it is to be pending, unless it is now."""
    entered: int = 0
    """When the original made its entry, or last raised it."""
    priority: int = 0
    place: int | None = None
    """By which moment the original orders it, where that is not since when it is pending."""
    again: int | None = None
    """When client-go delivers it once more."""
    raised: bool = False
    """Whether its priority grew while it was pending."""

    @property
    def exists(self) -> bool:
        """Return whether it is pending, now or later."""
        return self.pending or self.due is not None


class Differences:
    """Those that both originals have; and by default none."""

    queue = ""

    def forgets(self, item: Item) -> bool:
        """Return whether Done forgets the failures here, as nothing is pending; there Forget does."""
        return not item.exists

    def length(self, depth: int, n_dirty: int) -> int:
        """Return the Len that belongs to our depth."""
        raise NotImplementedError

    def retries(self, delays: int, delays_of_nothing: int) -> int:  # noqa: ARG002  # one counts both
        """Return what the metric says after so many delays, and so many that were none."""
        return delays

    def added_while_delayed(self, item: Item) -> None:
        """Translate an add of an item that waits for later; it is pending now and no longer delayed."""

    def delayed_while_pending(self, item: Item, due: int) -> None:
        """Translate a delay of an item that is pending now, which stays so."""

    def done_while_dirty(self, item: Item, now: int) -> None:
        """Translate the end of a claim whose item was added meanwhile."""

    def raised_while_pending(self, item: Item) -> None:
        """Translate a raise of what is pending now."""


class ClientGo(Differences):
    """client-go's workqueue."""

    queue = "workqueue"

    def length(self, depth: int, n_dirty: int) -> int:
        """Count what is queued; depth() counts what is dirty, too."""
        return depth - n_dirty

    def retries(self, delays: int, delays_of_nothing: int) -> int:
        """Count each AddAfter, with a delay or without."""
        return delays + delays_of_nothing

    def added_while_delayed(self, item: Item) -> None:
        """Deliver it now and, once more, when the delay ends; here the add supersedes the delay."""
        assert item.due is not None
        item.again = min(item.due, item.again or item.due)

    def delayed_while_pending(self, item: Item, due: int) -> None:
        """Deliver it now and, once more, when the delay ends; here it comes once, now."""
        item.again = min(due, item.again or due)

    def done_while_dirty(self, item: Item, now: int) -> None:
        """Queue it at the tail at Done; here the order is that of the adds."""
        item.place = now


class PriorityQueue(Differences):
    """controller-runtime's priority queue, whose order after Done is that of the adds, as ours."""

    queue = "priorityqueue"

    def length(self, depth: int, n_dirty: int) -> int:  # noqa: ARG002  # as the other's
        """Count what is ready, also while it is locked: as depth() does."""
        return depth

    def added_while_delayed(self, item: Item) -> None:
        """Keep the place of its first add in its level; here it goes to the end of it."""
        item.place = item.entered

    def raised_while_pending(self, item: Item) -> None:
        """Let its latency run on; here it begins with the raise, as its place in the new level does."""
        item.raised = True
        item.place = None
