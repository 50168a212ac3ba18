"""The session of one handle of a memory queue, and its turns."""

import logging
import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from distq.workqueue.engine import Entry, OnClaims, RateLimitedAdd, TurnSettings
from distq.workqueue.interface import REFUSED, Turn
from distq.workqueue.memory import entries as rules
from distq.workqueue.memory.endings import dispositions_of, ending_of, requests_of
from distq.workqueue.memory.entries import Answer, Ending
from distq.workqueue.request import Request

if TYPE_CHECKING:
    from distq.workqueue.memory.engine import MemoryEngine

_logger = logging.getLogger("distq.queue")

_POLL = 1.0
"""Seconds between turns of a waiting thread: the clock may have been set, or a suspect may have ended."""

_MAX_CLOCK_STEP = 10_000_000
"""How far one turn moves the claim clock, µs; here no claim ends by it."""


class MemorySession:
    """The claims of one handle; its first turn opens the session. See ``HandleSession``."""

    def __init__(self, engine: "MemoryEngine", settings: TurnSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._held: dict[str, Request] = {}
        self._number: int | None = None
        self._turns = 0
        self._holds_suspect = False
        self._in_turn = False
        self._stopped = False
        self._waits = 0
        self._interrupts = 0
        self._interrupted = False
        self._thread = threading.local()
        """``seen``: the changes at this thread's last turn. It does not sleep over later ones."""

    def turn(
        self, entries: Sequence[Entry], want: int, ahead: int = 0, on_claims: OnClaims | None = None
    ) -> Turn:
        """Settle and claim, as ``QueueHandle.turn``. Nothing is claimed ahead: it saves no round trip."""
        del ahead, on_claims
        with self._engine.lock:
            self._in_turn = True
            try:
                turn = self._make_turn(entries, want)
            finally:
                self._in_turn = False
            if self._stopped:  # a stop by a limiter in the midst of the turn left the closing to this
                self._close_if_idle()
            return turn

    def _make_turn(self, entries: Sequence[Entry], want: int) -> Turn:
        are_sent = [isinstance(entry, RateLimitedAdd) or self._holds(entry.request) for entry in entries]
        sent = [entry for entry, is_sent in zip(entries, are_sent, strict=True) if is_sent]
        if self._stopped and self._number is None and not sent:
            return Turn([], [REFUSED] * len(entries), 0.0)
        endings = [ending_of(entry, self._settings.limiter_of) for entry in sent]
        settled = {ending.item for ending in endings}
        beside_suspect = self._holds_suspect and not self._held.keys() <= settled
        answer = self._send(endings, 0 if beside_suspect or self._stopped else want)
        requests, dispositions = requests_of(answer), iter(dispositions_of(endings, answer))
        for ending in endings:
            if ending.outcome != "limit":
                self._held.pop(ending.item, None)
        took_suspect = answer.alone and bool(requests)
        self._holds_suspect = took_suspect or (self._holds_suspect and bool(self._held))
        self._held.update((request.key, request) for request in requests)
        self._thread.seen = self._engine.changes
        results = [next(dispositions) if is_sent else REFUSED for is_sent in are_sent]
        wait = self._wait_time()
        return Turn(requests, results, wait, answer.promoted, answer.revived, answer.fence)

    def _send(self, endings: Sequence[Ending], want: int) -> Answer:
        """Make a turn, in a new session if there is none."""
        state, now = self._engine.state, self._engine.now()
        if self._number is None:
            self._number = state.sessions.open(
                now, "", "", claim_duration=math.inf, max_clock_step=_MAX_CLOCK_STEP
            )
        self._turns += 1
        answer = state.turn(
            now=now,
            number=self._number,
            nonce="",
            op=str(self._turns),
            endings=endings,
            want=want,
            policy=rules.Policy(
                "",
                self._settings.options.max_retries,
                self._settings.fleet_concurrency,
                self._settings.revive_after,
                self._settings.wants_links,
                self._settings.fleet_concurrency_per_flow,
            ),
            max_clock_step=_MAX_CLOCK_STEP,
        )
        assert isinstance(answer, Answer)  # noqa: S101  # only its handle ends a session
        if endings:
            self._engine.note_change()
        return answer

    def _wait_time(self) -> float:
        """Return the seconds until the next item is due, at most until the next poll."""
        now, due = self._engine.now(), self._engine.state.items.next_due(self._settings.revive_after)
        return min(_POLL, (due - now) / 1e6) if due is not None and due > now else _POLL

    def _holds(self, request: Request) -> bool:
        held = self._held.get(request.key)
        return held is not None and held.fence == request.fence

    def take_spare(self) -> Request | None:
        """Return None: it claims nothing ahead."""
        return None

    def release_spare(self) -> None:
        """Do nothing: it claims nothing ahead."""

    def take_back(self, entries: Sequence[Entry], turn: Turn) -> None:
        """Release the claims of a turn whose caller was interrupted."""
        del entries
        with self._engine.lock:
            held = [request for request in turn.requests if self._holds(request)]
            for request in held:
                del self._held[request.key]
                self._cancel(request, "its caller has gone")
            self._release(held)
            self._holds_suspect = self._holds_suspect and bool(self._held)
            if self._stopped:
                self._close_if_idle()

    def announce_stop(self) -> None:
        """Do nothing: no other process uses this queue."""

    def held(self) -> int:
        """Return how many claims this handle holds."""
        return len(self._held)

    def is_claiming(self) -> bool:
        """Return whether this thread makes a turn; those of others end before this returns."""
        with self._engine.lock:
            return self._in_turn

    @property
    def worker_name(self) -> str:
        """Return "": ``distq workers`` does not list queues in memory."""
        return ""

    def is_kept_alive(self) -> bool:
        """Return True: claims in memory need no heartbeat."""
        return True

    # Waiting

    def wait(self, seconds: float, at_most: float | None = None, want: int = 1) -> None:  # noqa: ARG002
        """Sleep until something changed since this thread's last turn, or ``interrupt``, or ``seconds``."""
        engine = self._engine
        with engine.lock:
            seen = getattr(self._thread, "seen", engine.changes)
            if self._interrupted:
                self._interrupted = False
                return
            self._waits += 1
            interrupts = self._interrupts
        try:
            engine.changed.wait_for(
                lambda: self._stopped or engine.changes != seen or self._interrupts != interrupts,
                seconds if at_most is None else min(seconds, at_most),
                engine.clock,
            )
        finally:
            with engine.lock:
                self._waits -= 1

    def interrupt(self) -> None:
        """End the running waits, or the next one."""
        with self._engine.lock:
            self._interrupts += 1
            self._interrupted = not self._waits
        self._engine.changed.announce()

    # The end

    def stop(self) -> None:
        """Claim nothing from now on, end all waits, and close the session as soon as it holds nothing."""
        with self._engine.lock:
            self._stopped = True
            self._close_if_idle()
            self._engine.note_change()

    def close(self) -> None:
        """Release all claims and end the session."""
        with self._engine.lock:
            self._release(self._cancel_held("its session is closed"))
            self._close_if_idle()
        self.interrupt()

    def _close_if_idle(self) -> None:
        """End the session unless it holds a claim, or this is called within a turn that may bring one."""
        if self._number is not None and not self._held and not self._in_turn:
            self._engine.state.sessions.close(self._number, "")
            self._number = None

    def abandon(self) -> None:
        """Let the session lapse, with its claims."""
        with self._engine.lock:
            self._cancel_held("its session lapsed")
            if self._number is not None:
                self._engine.state.sessions.lapse(self._number, self._engine.now())
                self._number = None
            self._engine.note_change()

    def _release(self, requests: Sequence[Request]) -> None:
        if requests:  # a turn would open a session
            self._send([Ending(each.key, each.fence, "release") for each in requests], 0)

    def _cancel_held(self, why: str) -> list[Request]:
        """Cancel all requests at once and return them; from then on they cannot be settled."""
        held, self._held, self._holds_suspect = list(self._held.values()), {}, False
        for request in held:
            self._cancel(request, why)
        return held

    def _cancel(self, request: Request, why: str) -> None:
        _logger.warning("queue %s: %s cancelled: %s", self._engine.name, request.key, why)
        request.cancelled.set()
        self._settings.on_cancel(request)
