"""How long items waited before a process claimed them, by flow, for its description.

A turn only stores its claims; the next heartbeat counts them. So an item costs nothing more.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from heapq import nlargest

from distq.redisio.durations import Durations
from distq.redisio.limits import FLOW_LETTERS, FLOWS_REPORTED
from distq.workqueue.request import Request

WINDOW = 300.0
"""The most seconds that a description covers; it covers at least half of them."""

_CLAIMS = 1000
"""Claims between two heartbeats that are counted: the last ones."""

_FOLLOWED = 1000
"""Flows whose counts are kept from one heartbeat to the next, since each costs time in each."""

_Waits = Mapping[str, Durations]
"""Durations by flow; keys without a slash are the flow ""."""


class FlowWaits:
    """Counts the claims of the last minutes. Turns add to ``claimed``; heartbeats and new sessions report."""

    def __init__(self) -> None:
        self.claimed = deque[Request](maxlen=_CLAIMS)
        self._before: _Waits = {}
        self._now: defaultdict[str, Durations] = defaultdict(Durations)
        self._since: float | None = None

    def describe(self, now: float) -> list[str]:
        """Return a text for each flow: its durations, a space and its name, or no name for keys without a
        slash.

        ``now`` is in seconds by the monotonic clock. Of many flows, these are the ones with most claims, and
        the ones that waited longest.
        """
        self._forget(now)
        claimed, self.claimed = self.claimed, deque(maxlen=_CLAIMS)
        waits: defaultdict[str, list[int]] = defaultdict(list)
        for request in list(claimed):  # a turn may still add to it
            flow, slash, _ = request.key.partition("/")
            milliseconds = request.fence / 1000 - 1000 * (request.enqueued_at or 0.0)
            waits[flow if slash else ""].append(int(milliseconds))
        for flow, all_of_it in waits.items():
            if len(flow) <= FLOW_LETTERS:
                self._now[flow].note(all_of_it)
        if len(self._now) > _FOLLOWED:
            self._now = defaultdict(Durations, _chosen(dict(self._now), _FOLLOWED))
        return [f"{waiting} {flow}" for flow, waiting in self._reported().items()]

    def _forget(self, now: float) -> None:
        """Drop counts that are older than the window, half of it at a time."""
        if self._since is None:
            self._since = now
        halves = (now - self._since) // (WINDOW / 2)
        if halves:
            self._before = self._now if halves == 1 else {}
            self._now = defaultdict(Durations)
            self._since = now

    def _reported(self) -> _Waits:
        together = dict(self._before)
        for flow, waiting in dict(self._now).items():  # another thread may describe them, too
            together[flow] = together[flow] + waiting if flow in together else waiting
        return _chosen(together, FLOWS_REPORTED)


def _chosen(waits: _Waits, at_most: int) -> _Waits:
    """Return the flows with most claims and those that waited longest, half of each."""
    if len(waits) <= at_most:
        return waits
    most = nlargest(at_most // 2, waits, key=lambda flow: waits[flow].total())
    longest = nlargest(at_most // 2, waits, key=lambda flow: waits[flow].quantile(0.99) or 0.0)
    return {flow: waits[flow] for flow in dict.fromkeys([*most, *longest])}
