"""The description of a worker for people, sent with each heartbeat."""

import json
import os
import secrets
import socket
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from distq.redisio.durations import Durations
from distq.workqueue.engine import Entry, TurnSettings
from distq.workqueue.flow_waits import FlowWaits
from distq.workqueue.interface import Disposition, Park, Release, Retry, Settlement, all_ended
from distq.workqueue.request import Request
from distq.workqueue.turns import TurnReply

_HALF_LIFE = 2.0
"""Seconds after which the shown rate has moved half-way to the rate since the last heartbeat."""

try:
    VERSION = version("distq")
except PackageNotFoundError:  # run from a copy of the source
    VERSION = "0"


class Worker:
    """Counts a session's claims and settlements, and describes them together with its handle's purpose.

    Durations of items come from one clock, the server's.
    """

    def __init__(self, settings: TurnSettings) -> None:
        self._settings = settings
        host = socket.gethostname()
        self.done = 0
        self.failed = 0
        self.refused = 0
        self.waiting = Durations()
        self.working = Durations()
        self._flows = FlowWaits()
        self.stopping = False
        self._reported_stopping = False
        self._since: float | None = None
        self._rates = (0.0, 0.0)  # done and failed, a second
        self._last: tuple[float, int, int] | None = None
        """Of the last description: its monotonic time, done and failed."""
        self.name = f"{host}-{secrets.token_hex(2)}"
        self._about = {
            "id": self.name,
            "host": host,
            "pid": os.getpid(),
            "version": VERSION,
        }

    def count(self, entries: Sequence[Entry], reply: TurnReply) -> None:
        """Count a turn's settlements as done, failed or refused, with how long the items were held.

        Released items count as none of these.
        """
        if not entries:
            return
        settled: Sequence[Any] = entries
        failed = 0
        if not all_ended(reply.dispositions):  # otherwise all are settlements, and none failed
            settled = self._worked_on(entries, reply.dispositions)
            failed = sum(isinstance(entry.outcome, Retry | Park) for entry in settled)
        self.failed += failed
        self.done += len(settled) - failed
        self.working.note([(reply.fence - entry.request.fence) // 1000 for entry in settled])

    def count_claims(self, requests: Sequence[Request]) -> None:
        """Count how long the items of one turn's claims were pending."""
        self._flows.claimed.extend(requests)
        now = requests[0].fence / 1000
        self.waiting.note([int(now - 1000 * (each.enqueued_at or 0.0)) for each in requests])

    def _worked_on(self, entries: Sequence[Entry], dispositions: Sequence[Disposition]) -> list[Settlement]:
        """Count the refused settlements; return those neither refused nor released."""
        worked_on = []
        for entry, disposition in zip(entries, dispositions, strict=True):
            if not isinstance(entry, Settlement):
                continue
            if disposition.kind == "refused":
                self.refused += 1
            elif not isinstance(entry.outcome, Release):
                worked_on.append(entry)
        return worked_on

    def has_news(self) -> bool:
        """Return whether the last description is out of date: counts or rates changed, or it is stopping."""
        if self.stopping and not self._reported_stopping:
            return True
        if self._last is None:
            return False
        # a rate below 0.005 is shown as 0.00
        return (self.done, self.failed) != self._last[1:] or max(self._rates) >= 0.005

    def describe(self, *, ends: bool = False) -> str:
        """Return the description as JSON; times are seconds since the epoch by this machine's clock.

        Of a session that ``ends`` Redis keeps the counts alone.
        """
        clock = self._settings.options.clock
        self._follow_rates(clock.monotonic())
        self._since = self._since or clock.now()
        counts = {"done": self.done, "failed": self.failed, "refused": self.refused}
        durations = {"waiting": str(self.waiting), "working": str(self.working)}
        times = {"since": round(self._since, 3), "heartbeat": round(clock.now(), 3)}
        done_per_second, failed_per_second = (round(rate, 2) for rate in self._rates)
        rates = {"done_per_second": done_per_second, "failed_per_second": failed_per_second}
        purpose = self._settings.purpose
        handle = purpose().about() if purpose else {}
        self._reported_stopping = self.stopping
        if (revive_dead_after := self._settings.options.revive_dead_after) is not None:
            handle["revive_dead_after"] = revive_dead_after
        state = {"stopping": True} if self.stopping else {}  # expire_sessions.lua looks for this text
        flows = {} if ends else {"flows": self._flows.describe(clock.monotonic())}
        return json.dumps(self._about | counts | durations | times | rates | handle | state | flows)

    def _follow_rates(self, now: float) -> None:
        if self._last is not None and now > self._last[0]:
            past, done, failed = self._last
            seconds = now - past
            forgotten = 0.5 ** (seconds / _HALF_LIFE)
            current = ((self.done - done) / seconds, (self.failed - failed) / seconds)
            before_done, before_failed = self._rates
            self._rates = (
                current[0] + forgotten * (before_done - current[0]),
                current[1] + forgotten * (before_failed - current[1]),
            )
        self._last = (now, self.done, self.failed)
