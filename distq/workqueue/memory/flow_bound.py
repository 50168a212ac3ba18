"""The claimed, let-in and held-back items of each flow, if the claims of a flow are limited."""

import math
from collections import Counter
from collections.abc import Sequence

from distq.workqueue.memory.entries import Item, Now
from distq.workqueue.memory.flows import flow_of
from distq.workqueue.memory.items import Items

_AT_ONCE = 100
_BETWEEN_LOOKS = 100_000
"""µs between two looks at all flows."""


class FlowBound:
    """The bound of one queue; each turn has its own ``limit``, None if it has none.

    ``claimed`` are the claims that count, ``let_in`` the items that go before the held-back items of their
    flow. Both may have an item that is no longer claimed, or ready, until a turn checks it. The bound is in
    use from the first turn with a limit until a turn without one finds that nothing is held back.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self.looked_at: int | None = None
        self.claimed: set[Item] = set()
        self.let_in: set[Item] = set()

    @property
    def in_use(self) -> bool:
        """Return whether claims are counted by flow."""
        return self.looked_at is not None

    def begin(self, now: int, ended: Sequence[Item], limit: int | None) -> None:
        """End claims, and let in other items of their flows; without a limit let in some items of all flows.

        Ten times a second it also lets in items that wait although no claim of their flow can end.
        """
        if limit is None and not self.in_use:
            return
        if self.looked_at is None:
            self.looked_at = now
        self.claimed.difference_update(ended)
        if limit is None:
            self._bring_all_back()
            return
        if self._items.held_back:
            for flow in dict.fromkeys(map(flow_of, ended)):
                self._fill(flow, limit)
        if not 0 <= now - self.looked_at < _BETWEEN_LOOKS:
            self.looked_at = now
            for flow in sorted(
                {flow_of(item) for item in self.claimed | self.let_in | self._items.held_back}
            ):
                self._drop_stale(flow)
                self._fill(flow, limit)

    def hold_back(self, found: Sequence[Item], limit: int, counts: Counter[str]) -> list[Item]:
        """Hold back the found items that may not be claimed; return the others.

        ``counts`` has the claims of each flow that the turn met, with those that it is about to make. An item
        may be claimed unless ``limit`` items of its flow are claimed, or others of its flow, of its priority
        or a higher one, are held back. An item that was let in has waited with these.
        """
        others = []
        for item in found:
            flow = flow_of(item)
            if flow not in counts:
                counts[flow] = _count(flow, self.claimed)
            if counts[flow] < limit and (item in self.let_in or not self._is_behind(item)):
                counts[flow] += 1
                others.append(item)
            else:
                self._items.held_back.add(item)
                self.let_in.discard(item)
        return others

    def claim(self, items: Sequence[Item]) -> None:
        """Count claims; an item that was let in counts as claimed from now on."""
        self.claimed.update(items)
        self.let_in.difference_update(items)

    def is_full(self, suspect: Item, limit: int) -> bool:
        """Return whether a suspect must wait for the end of a claim of its flow; then it is let in next."""
        if _count(flow_of(suspect), self.claimed) < limit:
            return False
        self.let_in.add(suspect)
        return True

    def put_back(self, item: Item, stood: Now) -> None:
        """Give an item its old place, see ``Items.put_back``; it has waited with those that are held back."""
        entry = self._items.pending.get(item)
        is_raised = isinstance(entry, Now) and entry.priority > stood.priority
        self._items.put_back(item, stood)
        if self.in_use and not (is_raised and self._items.flows.is_fair):
            self.let_in.add(item)

    def rest(self) -> None:
        """Forget everything, once nothing waits and nothing is claimed."""
        if not (self._items.claims or self._items.suspects or self._items.held_back or self._items.ready(1)):
            self.claimed.clear()
            self.let_in.clear()

    def _is_behind(self, item: Item) -> bool:
        level, _ = self._items.place(item)
        first = min((self._items.place(each) for each in self._held_back(flow_of(item))), default=(math.inf,))
        return first[0] <= level

    def _held_back(self, flow: str) -> list[Item]:
        """Return the held-back items of a flow, in the order in which they come back."""
        held_back = [item for item in self._items.held_back if flow_of(item) == flow]
        return sorted(held_back, key=lambda item: (self._items.place(item), item))

    def _drop_stale(self, flow: str) -> None:
        """Drop items that are no longer claimed, or no longer ready."""
        items = self._items
        waiting = {*items.ready(len(items.pending)), *items.suspects}
        self.claimed = {item for item in self.claimed if flow_of(item) != flow or item in items.claims}
        self.let_in = {item for item in self.let_in if flow_of(item) != flow or item in waiting}

    def _fill(self, flow: str, limit: int) -> None:
        for item in self._held_back(flow)[:_AT_ONCE]:
            if _count(flow, self.claimed) + self._let_in_before(item) >= limit:
                return
            self._items.bring_back(item)
            self.let_in.add(item)

    def _let_in_before(self, item: Item) -> int:
        """Return how many items of an item's flow are let in, without those ready at a lower priority."""
        level, _ = self._items.place(item)
        ready = {*self._items.ready(len(self._items.pending))}
        return sum(
            flow_of(each) == flow_of(item) and not (each in ready and self._items.place(each)[0] > level)
            for each in self.let_in
        )

    def _bring_all_back(self) -> None:
        items = self._items
        for item in sorted(items.held_back, key=lambda item: (items.place(item), item))[:_AT_ONCE]:
            items.bring_back(item)
        if not items.held_back:
            self.looked_at = None
            self.claimed.clear()
            self.let_in.clear()


def _count(flow: str, items: set[Item]) -> int:
    return sum(flow_of(item) == flow for item in items)
