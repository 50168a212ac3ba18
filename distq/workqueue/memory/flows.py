"""Flows: those that share a fair queue, and where each of them goes on (start-time fair queueing)."""

from distq.workqueue.memory.entries import Item, Now


def flow_of(item: Item) -> str:
    """Return the flow of an item: the key's text before its first slash; "" of a key without one."""
    before, slash, _ = item.partition("/")
    return before if slash else ""


class Flows:
    """Where the flows of a queue end, by priority and flow.

    ``fair_by`` is "namespace", or "none" or "" of a queue that is not fair. An item enters where the first
    ready item of its priority is, or at the end of its flow if that is later; the flow then ends a µs later.
    """

    def __init__(self, fair_by: str = "") -> None:
        self.fair_by = fair_by
        self.ends: dict[tuple[int, str], int] = {}

    @property
    def is_fair(self) -> bool:
        """Return whether items go by their flows."""
        return self.fair_by == "namespace"

    def tag(self, item: Item, entry: Now, first: int | None) -> int:
        """Return the tag of an item that becomes ready.

        ``first`` is that of the first item of its priority; without one the priority begins with this item.
        """
        if first is None:
            self._drop(entry.priority)
            first = entry.since
        flow = entry.priority, flow_of(item)
        tag = max(first, self.ends.get(flow, first))
        self.ends[flow] = tag + 1
        return tag

    def go_on(self, entry: Now, first: int | None) -> int:
        """Return the tag of an item that comes back: its own, unless ``first`` has passed that.

        What the flows had while it was away is no share that is owed to those that enter now. An item that
        went away before the queue was fair comes first: among tags its time says nothing.
        """
        if first is None:
            self._drop(entry.priority)
            return entry.place[1]
        return first if entry.tag is None else max(first, entry.tag)

    def claim(self, last: Now | None, *, leaves_some: bool) -> None:
        """Drop the ends that mean nothing once a turn has claimed up to ``last``; all if nothing is ready."""
        if last is not None:
            self._drop(last.priority, up_to=last.place[1])
        if not leaves_some:
            self.ends.clear()

    def _drop(self, priority: int, up_to: float = float("inf")) -> None:
        dropped = [flow for flow, end in self.ends.items() if flow[0] == priority and end <= up_to]
        for flow in dropped:
            del self.ends[flow]
