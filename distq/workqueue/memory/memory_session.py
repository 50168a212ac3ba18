"""What one handle of a memory queue holds, and the turns by which claims come and go."""

import logging
import math
import threading
from collections.abc import Callable, Sequence

from distq.workqueue.interface import Request, Settlement, Turn
from distq.workqueue.memory import entries
from distq.workqueue.memory.endings import REFUSED, dispositions_of, ending_of, requests_of
from distq.workqueue.memory.engine import MemoryEngine
from distq.workqueue.memory.entries import Answer, Ending
from distq.workqueue.rate_limiters import Failure, program_of
from distq.workqueue.turns import TurnSettings

_logger = logging.getLogger("distq.queue")

_POLL = 1.0
"""Seconds after which who waits looks again: the clock may have been set, or a suspect may have ended."""

_MAX_CLOCK_STEP = 10_000_000
"""How far one call advances the claim clock, µs; nobody's claims end by it here."""


class MemorySession:
    """The claims of one handle; they live and die with its session, which its first turn opens."""

    def __init__(
        self,
        engine: MemoryEngine,
        name: str,
        policy: Callable[[], TurnSettings],
        on_cancel: Callable[[Request], None],
    ) -> None:
        self.held: dict[str, Request] = {}
        self._engine = engine
        self._name = name
        self._policy = policy
        self._on_cancel = on_cancel
        self._session: int | None = None
        self._turns = 0
        self._holds_suspect = False
        self._interrupted = False
        self._thread = threading.local()

    def turn(self, settlements: Sequence[Settlement], want: int) -> Turn:
        """Settle and claim; see ``TurnQueue.turn``."""
        with self._engine.lock:
            ours = [self._holds(each.request) for each in settlements]
            endings = [
                ending_of(settlement, self._limiter)
                for settlement, is_ours in zip(settlements, ours, strict=True)
                if is_ours
            ]
            settled = {ending.item for ending in endings}
            beside_suspect = self._holds_suspect and not self.held.keys() <= settled
            answer = self._send(endings, 0 if beside_suspect else want)
            requests, told = requests_of(answer), iter(dispositions_of(endings, answer))
            for ending in endings:
                self.held.pop(ending.item, None)
            self._holds_suspect = (answer.alone and bool(requests)) or (
                self._holds_suspect and bool(self.held)
            )
            self.held.update((request.key, request) for request in requests)
            self._thread.seen = self._engine.changes
            dispositions = [next(told) if is_ours else REFUSED for is_ours in ours]
            return Turn(requests, dispositions, self._patience(), answer.promoted)

    def back_off(self, key: str, attempt: int) -> Turn:
        """Count a failure of a key that nobody needs to hold, and delay it."""
        endings = [Ending(key, 0, "limit", self._limiter(Failure(key, attempt, None)))]
        with self._engine.lock:
            answer = self._send(endings, 0)
            return Turn([], dispositions_of(endings, answer), 0.0, answer.promoted)

    def _limiter(self, failure: Failure) -> str:
        policy = self._policy()
        return program_of(policy.rate_limiter, failure, policy.on_limiter_error)

    def _send(self, endings: Sequence[Ending], want: int) -> Answer:
        """Make a turn, in a new session where there is none."""
        state, now, policy = self._engine.state, self._engine.now(), self._policy()
        if self._session is None:
            self._session = state.sessions.open(
                now, "", "", claim_duration=math.inf, max_clock_step=_MAX_CLOCK_STEP
            )
        self._turns += 1
        answer = state.turn(
            now=now,
            number=self._session,
            nonce="",
            op=str(self._turns),
            endings=endings,
            want=want,
            policy=entries.Policy("", policy.max_retries, policy.fleet_concurrency),
            max_clock_step=_MAX_CLOCK_STEP,
        )
        assert answer is not None  # noqa: S101  # only its handle ends a session
        if endings:
            self._engine.changed()
        return answer

    def _patience(self) -> float:
        """Return how many seconds it is until a delay ends, at most until the next look."""
        now, due = self._engine.now(), self._engine.state.items.next_due()
        return min(_POLL, (due - now) / 1e6) if due is not None and due > now else _POLL

    def _holds(self, request: Request) -> bool:
        held = self.held.get(request.key)
        return held is not None and held.fence == request.fence

    # Waiting

    def wait(self, seconds: float) -> None:
        """Sleep until something changed since this thread's last turn, or ``interrupt``, or ``seconds``."""
        self.sleep(seconds, getattr(self._thread, "seen", self._engine.changes))

    def sleep(self, seconds: float, seen: int) -> None:
        """Sleep until something changed that was not ``seen``, or somebody interrupts."""
        bell = threading.Event()
        with self._engine.lock:
            if self._interrupted or self._engine.changes != seen:
                self._interrupted = False
                return
            self._engine.waiting[bell] = self
        try:
            self._engine.clock.wait(bell, min(seconds, threading.TIMEOUT_MAX))
        finally:
            with self._engine.lock:
                del self._engine.waiting[bell]

    def interrupt(self) -> None:
        """End the running waits, or the next one."""
        with self._engine.lock:
            mine = [bell for bell, waiter in self._engine.waiting.items() if waiter is self]
            for bell in mine:
                bell.set()
            self._interrupted = not mine

    # The end

    def close(self) -> None:
        """Release what is held and end the session."""
        with self._engine.lock:
            held = self._cancel_held("its session is closed")
            if held:
                self._send([Ending(each.key, each.fence, "release") for each in held], 0)
            self.close_if_idle()
        self.interrupt()

    def close_if_idle(self) -> None:
        """End the session unless something is held."""
        with self._engine.lock:
            if self._session is not None and not self.held:
                self._engine.state.sessions.close(self._session, "")
                self._session = None

    def abandon(self) -> None:
        """Let the session lapse, with what it holds."""
        with self._engine.lock:
            self._cancel_held("its session lapsed")
            if self._session is not None:
                self._engine.state.sessions.lapse(self._session, self._engine.now())
                self._session = None
            self._engine.changed()

    def _cancel_held(self, why: str) -> list[Request]:
        """Cancel all requests, at once: from here on nothing of them is settled; return them."""
        held, self.held, self._holds_suspect = list(self.held.values()), {}, False
        for request in held:
            _logger.warning("queue %s: %s cancelled: %s", self._name, request.key, why)
            request.cancelled.set()
            self._on_cancel(request)
        return held
