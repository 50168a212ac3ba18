"""Observes the demo through the Inspector, and shows rows and events on its display."""

import time
from collections.abc import Callable

from distq.cli.demo.controller import QUEUE
from distq.cli.demo.display import Display, Row
from distq.cli.demo.journal import Entry
from distq.inspector import Inspector, QueueInfo, StreamInfo
from distq.wording import counted

_ROW_EVERY = 1.5


class Observer:
    """Looks at queue, leader and workers; ``time`` is in seconds since ``begin``."""

    def __init__(self, inspector: Inspector, display: Display) -> None:
        self.leader_changes = 0
        self.lists_by_new_leader = 0
        self._inspector = inspector
        self._display = display
        self._leaders: list[str] = []
        self._leads = "-"
        self._ended: dict[str, tuple[int, int]] = {}
        self._last_row = 0.0
        self._taken_over: Callable[[], str | None] = lambda: None
        self.begin()

    @property
    def time(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._began

    def begin(self) -> None:
        """Let the time count from now."""
        self._began = time.monotonic()

    def report(self, text: str) -> None:
        """Show what happened just now."""
        self._display.event(round(self.time, 1), text)

    def leader_is_gone(self) -> None:
        """Show no leader until the next one shows."""
        self._leads = "-"

    def look(self) -> None:
        """Look, and show what is new."""
        for stream in self._inspector.streams(QUEUE):
            self._follow(stream)
        if event := self._taken_over():
            self.report(event)
            self._taken_over = lambda: None
        since = self.time - self._last_row
        if since >= _ROW_EVERY:
            self._last_row = self.time
            for queue in self._inspector.queues(QUEUE):
                self._display.row(self._row(queue, since))

    def expect_again(self, keys: set[str], since: float, journals: Callable[[], list[Entry]]) -> None:
        """Report when the last of these keys, which a dead worker held, was taken over by another."""

        def taken_over() -> str | None:
            again = {  # the newest first, so that of several starts of a key the first remains
                entry.key: entry.start
                for entry in sorted(journals(), key=lambda entry: entry.start, reverse=True)
                if entry.key in keys and entry.start > since
            }
            if not keys or set(again) != keys:
                return None
            return f"{len(keys)} taken over within {max(again.values()) - since:.1f} s"

        self._taken_over = taken_over

    def _follow(self, stream: StreamInfo) -> None:
        """Notice the leader; it is known from its first commit on."""
        if not stream.leader or not stream.synced:
            return
        if stream.leader not in self._leaders:
            self._leaders.append(stream.leader)
            self._leads = f"informer-{len(self._leaders)}"
            if len(self._leaders) > 1:
                self.leader_changes += 1
                lists = counted(stream.lists, "list")
                self.report(f"{self._leads} resumed at version {stream.version}, {lists}")
        if len(self._leaders) > 1:
            self.lists_by_new_leader = max(self.lists_by_new_leader, stream.lists)

    def _row(self, queue: QueueInfo, since: float) -> Row:
        done, failed = self._newly_ended()
        return Row(
            time=round(self.time, 1),
            leader=self._leads,
            ready=queue.ready,
            delayed=queue.delayed,
            processing=queue.processing,
            dead=queue.dead,
            done_per_second=round(done / since, 1),
            failed_per_second=round(failed / since, 1),
        )

    def _newly_ended(self) -> tuple[int, int]:
        """Return how many reconciles ended well and badly since the last call, as heartbeats report them."""
        before = self._ended
        self._ended = {w.name: (w.done, w.failed) for w in self._inspector.workers(QUEUE)}
        changes = [(now, before.get(name, (0, 0))) for name, now in self._ended.items()]
        done, failed = (sum(max(0, now[end] - then[end]) for now, then in changes) for end in (0, 1))
        return done, failed
