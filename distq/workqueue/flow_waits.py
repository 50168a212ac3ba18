"""How long items waited before a process claimed them, by flow, for its description.

A turn only keeps what it claimed; it is counted with the next heartbeat. So an item costs nothing more.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from distq.redisio.durations import Durations
from distq.redisio.limits import FLOW_LETTERS, FLOWS_REPORTED
from distq.workqueue.interface import Request, waited

WINDOW = 300.0
"""Seconds that a description goes back at most, and at least half of them."""

_CLAIMS = 1000
"""Claims between two heartbeats that are counted, or some more: those after them are left out."""

_Waits = Mapping[str | None, Durations]


class FlowWaits:
    """Counts the claims of the last minutes. One thread notes them, another one describes them."""

    def __init__(self) -> None:
        self._claimed: list[Request] = []
        self._before: _Waits = {}
        self._now: defaultdict[str | None, Durations] = defaultdict(Durations)
        self._since: float | None = None

    def note(self, requests: Sequence[Request]) -> None:
        """Note what a turn claimed."""
        claimed = self._claimed
        if len(claimed) < _CLAIMS:
            claimed.extend(requests)

    def describe(self, now: float) -> list[str]:
        """Return a text for each flow: its durations, then a space and its name if its keys have a slash.

        ``now`` in seconds by the monotonic clock. Of many flows they are those with most claims, and those
        that waited longest.
        """
        self._forget(now)
        claimed, self._claimed = self._claimed, []
        waits: defaultdict[str | None, list[int]] = defaultdict(list)
        for request in claimed:
            waits[request.namespace].append(int(waited(request) * 1000))
        for flow, milliseconds in waits.items():
            if flow is None or len(flow) <= FLOW_LETTERS:
                self._now[flow].note(milliseconds)
        return [
            str(waiting) if flow is None else f"{waiting} {flow}"
            for flow, waiting in self._reported().items()
        ]

    def _forget(self, now: float) -> None:
        """Let what is older than the window go, a half of it at a time."""
        if self._since is None:
            self._since = now
        halves = (now - self._since) // (WINDOW / 2)
        if halves:
            self._before = self._now if halves == 1 else {}
            self._now = defaultdict(Durations)
            self._since = now

    def _reported(self) -> _Waits:
        together = dict(self._before)
        for flow, waiting in self._now.items():
            together[flow] = together[flow] + waiting if flow in together else waiting
        if len(together) <= FLOWS_REPORTED:
            return together
        most = sorted(together, key=lambda flow: -together[flow].total())
        longest = sorted(together, key=lambda flow: -(together[flow].quantile(0.99) or 0.0))
        chosen = dict.fromkeys([*most[: FLOWS_REPORTED // 2], *longest[: FLOWS_REPORTED // 2]])
        return {flow: together[flow] for flow in chosen}
