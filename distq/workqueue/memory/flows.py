"""Flows: the sharers of a fair queue, and the place where each continues (start-time fair queueing)."""

from typing import NamedTuple

from distq.workqueue.memory.entries import Item, Now


class Entered(NamedTuple):
    """The place up to which items have entered while a queue becomes fair; ``passed`` have at it."""

    of_suspects: bool = False
    place: tuple[int, int] = (-900, 0)
    passed: int = 0


def flow_of(item: Item) -> str:
    """Return the flow of an item: the key's text before its first slash; "" of a key without one."""
    before, slash, _ = item.partition("/")
    return before if slash else ""


class Flows:
    """Where the flows of a queue end, by priority and flow.

    ``fair_by`` is "namespace", or "none" or "" of a queue that is not fair. An item enters where the first
    ready item of its priority is, or at the end of its flow if that is later; the flow then ends a µs later.

    A queue becomes fair in steps if items wait: in their order they enter by their flows, suspects last.
    ``entered`` is how far that is; None: all have.
    """

    def __init__(self, fair_by: str = "", *, becomes_so: bool = False) -> None:
        self.fair_by = fair_by
        self.entered = Entered() if becomes_so else None
        self.ends: dict[tuple[int, str], int] = {}

    @property
    def is_fair(self) -> bool:
        """Return whether places of items are by flow, or will be once all have entered."""
        return self.fair_by == "namespace"

    def goes_by_flow(self, entry: Now) -> bool:
        """Return whether an item that becomes ready gets a place by its flow, not by its time for now."""
        entered = self.entered
        return self.is_fair and (entered is None or entered.of_suspects or entry.place < entered.place)

    def tag(self, item: Item, entry: Now, first: int | None) -> int:
        """Return the tag of an item that becomes ready.

        ``first`` is the tag of the first item of its priority; if there is none, the priority begins with
        this item.
        """
        if first is None:
            self._drop(entry.priority)
            first = entry.since
        flow = entry.priority, flow_of(item)
        tag = max(first, self.ends.get(flow, first))
        self.ends[flow] = tag + 1
        return tag

    def go_on(self, entry: Now, first: int | None) -> int:
        """Return the tag of an item that comes back: its own, or ``first`` if its own is earlier.

        Otherwise items that enter now would get a share of the turns that other flows had while it was away.
        An item that was claimed before the queue was fair comes first: its time cannot be compared with tags.
        """
        if first is None:
            self._drop(entry.priority)
            return entry.place[1]
        return first if entry.tag is None else max(first, entry.tag)

    def come_back(self, item: Item, entry: Now, first: int | None) -> int:
        """Return the tag of an item that was held back: behind the item of its flow that came back before it.

        So coming back gives a flow one turn in each round, like the other flows.
        """
        flow = entry.priority, flow_of(item) + "\0"
        tag = self.go_on(entry, first)
        tag = max(tag, self.ends.get(flow, tag))
        self.ends[flow] = tag + 1
        return tag

    def claim(self, last: Now | None, *, leaves_some: bool) -> None:
        """Drop the ends without an effect once a turn has claimed up to ``last``; all if nothing is ready."""
        if last is not None:
            self._drop(last.priority, up_to=last.place[1])
        if not leaves_some:
            self.ends.clear()

    def _drop(self, priority: int, up_to: float = float("inf")) -> None:
        dropped = [flow for flow, end in self.ends.items() if flow[0] == priority and end <= up_to]
        for flow in dropped:
            del self.ends[flow]
