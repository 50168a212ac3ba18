"""How a session's process describes itself to people, with each heartbeat."""

import json
import os
import secrets
import socket
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from distq.clock import Clock
from distq.redisio.durations import Durations
from distq.workqueue.engine import TurnSettings
from distq.workqueue.interface import Disposition, Park, Release, Request, Retry, Settlement
from distq.workqueue.recorder import waited

_HALF_LIFE = 2.0
"""Seconds in which the rate shown comes half as close to that since the last heartbeat."""

try:
    VERSION = version("distq")
except PackageNotFoundError:  # run from a copy of the source
    VERSION = "0"


class Worker:
    """Counts what a session claims and settles, and writes it down, with what the session's handle is for.

    Times are the server's: an item became pending, was claimed and was settled by one clock.
    """

    def __init__(self, settings: TurnSettings) -> None:
        self._settings = settings
        host = socket.gethostname()
        self.done = 0
        self.failed = 0
        self.refused = 0
        self.waiting = Durations()
        self.working = Durations()
        self.stopping = False
        self._said_stopping = False
        self._since: float | None = None
        self._rate = 0.0
        self._last: tuple[float, int] | None = None
        self.name = f"{host}-{secrets.token_hex(2)}"
        self._about = {
            "id": self.name,
            "host": host,
            "pid": os.getpid(),
            "version": VERSION,
        }

    def count_claims(self, requests: Iterable[Request]) -> None:
        """Count how long each item was pending before it was claimed."""
        self.waiting.note(map(waited, requests))

    def count(self, settled: Iterable[tuple[Settlement, Disposition]], fence: int) -> None:
        """Count the settlements of the turn with this fence: done, failed, or refused.

        What is put back is none of them.
        """
        held = []
        for settlement, disposition in settled:
            if disposition.kind == "refused":
                self.refused += 1
            elif not isinstance(settlement.outcome, Release):
                held.append((fence - settlement.request.fence) / 1e6)
                if isinstance(settlement.outcome, Retry | Park):
                    self.failed += 1
                else:
                    self.done += 1
        self.working.note(held)

    def has_news(self) -> bool:
        """Return whether the counts, or the rate, are others than those described last, or it stops."""
        ended = self.done + self.failed
        if self.stopping and not self._said_stopping:
            return True
        return self._last is not None and (ended != self._last[1] or self._rate >= 0.005)  # 0.00 is shown

    def describe(self, clock: Clock) -> str:
        """Return the description as JSON; times are seconds since the epoch by this machine's clock."""
        now, ended = clock.monotonic(), self.done + self.failed
        if self._last is not None and now > self._last[0]:
            current = (ended - self._last[1]) / (now - self._last[0])
            forgotten = 0.5 ** ((now - self._last[0]) / _HALF_LIFE)
            self._rate = current + forgotten * (self._rate - current)
        self._last = (now, ended)
        self._since = self._since or clock.now()
        counts = {"done": self.done, "failed": self.failed, "refused": self.refused}
        durations = {"waiting": str(self.waiting), "working": str(self.working)}
        times = {"since": round(self._since, 3), "heartbeat": round(clock.now(), 3)}
        rate = {"done_per_second": round(self._rate, 2)}
        purpose = self._settings.purpose
        said = purpose().about() if purpose else {}
        self._said_stopping = self.stopping
        if (revive_dead_after := self._settings.revive_dead_after) is not None:
            said["revive_dead_after"] = revive_dead_after
        state = {"stopping": True} if self.stopping else {}  # expire_sessions.lua looks for this text
        return json.dumps(self._about | counts | durations | times | rate | said | state)
