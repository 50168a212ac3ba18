"""Keeps a session alive from a thread of its own, and fences the process from another when that fails."""

import logging
import math
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol

from distq.clock import Clock
from distq.errors import DistqError
from distq.redisio.queue_store import QueueStore
from distq.workqueue.claim_deadline import ClaimDeadline
from distq.workqueue.engine import Entry
from distq.workqueue.interface import Request, Turn
from distq.workqueue.rate_limiters import microseconds
from distq.workqueue.worker import Worker

_logger = logging.getLogger("distq.queue")


NEWS_INTERVAL = 1.5
"""Seconds between heartbeats while the counts of the worker change, so that people see them move."""


class HeartbeatSession(Protocol):
    """What a heartbeat asks of the session that it keeps alive."""

    store: QueueStore
    claim_duration: float
    clock: Clock
    max_clock_step: int
    turns: int
    deadline: ClaimDeadline
    worker: Worker

    @property
    def id(self) -> str:
        """Return its name in Redis, empty while there is none."""

    def held(self) -> Sequence[Request]:
        """Return the requests that it holds."""

    def turn(self, entries: Sequence[Entry], want: int) -> Turn:
        """Settle and claim."""

    def knows(self, turn: str) -> bool:
        """Return whether what Redis has as its last turn is the last one, or one in doubt."""

    def spare_fences(self) -> set[int]:
        """Return the fences of those that no caller has."""

    def release_spare(self) -> None:
        """Give these back."""

    def cancel_held(self, why: str) -> None:
        """Cancel all requests."""

    def interrupt(self) -> None:
        """End its running waits, or the next one."""

    def recount(self) -> None:
        """Compare its claims with the server's."""


class Heartbeat:
    """Beats for a session at a third of its claim duration, at most 10 s apart, and sooner where it works.

    Its connection is its own, with a timeout of a sixth of the claim duration and without repetitions, so
    that two beats may fail before the deadline. A beat may block for longer (in the look-up of a name,
    say), so another thread watches the deadline, and fences the process.
    A session that was dropped without being closed is left to lapse.
    """

    def __init__(self, session: HeartbeatSession) -> None:
        self._session = weakref.ref(session)
        self._period = min(session.claim_duration / 3, 10.0)
        self._connection = session.store.connection.with_timeout(self._period / 2)
        self._store = session.store.over(self._connection)
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        """That which beats, and that which watches the deadline."""
        self._surplus = False
        self._spare: set[int] = set()
        """The fences of what was claimed ahead and not wanted yet, when it looked last."""
        self._give_back_at = math.inf
        """When what was cancelled too late may run elsewhere, as far as the server still has it here."""
        self._clock = session.clock
        self._looks_at = math.inf
        self._was_late = 0.0

    def begin(self) -> None:
        """Beat from now on, unless it does."""
        self._looks_at, self._was_late = self._clock.monotonic() + NEWS_INTERVAL, 0.0
        if not self._threads:
            self._threads = [self._start("deadline", self._watch), self._start("heartbeat", self._run)]

    def _start(self, task: str, run: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=run, name=f"distq-{task}-{self._store.name}", daemon=True)
        thread.start()
        return thread

    def is_alive(self) -> bool:
        """Return whether it beats, or need not."""
        return self._stopped.is_set() or all(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Stop beating; a beat under way may still end."""
        self._stopped.set()

    def _run(self) -> None:
        period, slept = self._period, 0.0
        while not self._stopped.wait(pause := min(NEWS_INTERVAL, period - slept)):
            slept += pause
            session = self._session()
            if session is None:
                break
            self.release_unwanted(session)
            if slept < period and not session.worker.has_news() and not session.deadline.is_over():
                del session
                continue
            slept = 0.0
            try:
                good = self.beat(session)
            except DistqError as error:
                _logger.warning("queue %s: heartbeat failed: %s", self._store.name, error)
                good = False
            period = self._until_next(session, good=good)
            del session
        self._connection.close()

    def release_unwanted(self, session: HeartbeatSession) -> None:
        """Give back what a loop claimed ahead and has not come for since the last look: it may never come."""
        spare = session.spare_fences()
        if spare & self._spare:
            session.release_spare()
        self._spare = spare

    def _until_next(self, session: HeartbeatSession, *, good: bool) -> float:
        """Return the seconds from one heartbeat to the next.

        After a failure that is soon: one period may have passed, Redis counts one of the outage when it is
        back, and so a third of the claim duration is left.
        """
        if not good:
            return min(self._period / 4, 1.0)
        until_give_back = self._give_back_at - session.clock.monotonic()
        return min(self._period, max(until_give_back, 0.1))

    def stood_still(self) -> float:
        """Return for how many seconds nothing of this process ran, at the longest since the last good beat.

        It is how late the thread came at most, or is, that watches the deadline and else only waits.
        """
        return max(self._was_late, self._clock.monotonic() - self._looks_at)

    def _watch(self) -> None:
        pause = NEWS_INTERVAL  # at most, since waits do not count the time for which a machine is suspended
        while not self._stopped.wait(pause):
            self._was_late = self.stood_still()
            session = self._session()
            if session is None:
                break
            self.fence_if_late(session)
            left = session.deadline.left()
            pause = min(left, NEWS_INTERVAL) if left > 0 else NEWS_INTERVAL
            self._looks_at = self._clock.monotonic() + pause
            del session

    def fence_if_late(self, session: HeartbeatSession) -> None:
        """Cancel all that is held once its deadline is over; soon others may have it."""
        if session.deadline.take_missed():
            ended_at = session.clock.monotonic() + session.deadline.cancel_time
            if session.held():
                session.cancel_held("no heartbeat reached Redis in time")
                self._give_back_at = ended_at
            self._give_back_at = min(self._give_back_at, ended_at)

    def beat(self, session: HeartbeatSession) -> bool:
        """Send one heartbeat and compare the claims; return whether the server has the session."""
        identity, turns, sent_at = session.id, session.turns, session.clock.monotonic()
        if not identity:
            return True
        reply = self._store.run(
            "heartbeat",
            session=identity,
            claim_duration=microseconds(session.claim_duration),
            max_clock_step=session.max_clock_step,
            worker=session.worker.describe(session.clock),
        )
        if reply == b"LOST":
            if session.id == identity:
                session.cancel_held("its session lapsed")
            session.turn([], 0)  # which finds it lost, and says that what it held did not crash it
            return False
        if session.id == identity:
            session.deadline.extend(sent_at)
            self._was_late = 0.0
        self.fence_if_late(session)
        claims, turn = reply
        undisturbed = turns % 2 == 0 and session.turns == turns and session.id == identity
        if undisturbed and not session.knows(turn.decode()):
            session.turn([], 0)  # Redis went back, and as many claims are not the same ones: a turn finds out
        if (at := self._give_back_at) < math.inf:  # a busy session is never undisturbed
            if session.clock.monotonic() >= at:
                self._give_back(session, at)
        elif undisturbed:
            self._compare(session, claims)
        return True

    def _give_back(self, session: HeartbeatSession, at: float) -> None:
        """Release what was cancelled and is still counted for us: its handlers had their time to end."""
        session.recount()
        if self._give_back_at == at:  # or more was cancelled meanwhile
            self._give_back_at = math.inf
        session.interrupt()

    def _compare(self, session: HeartbeatSession, claims: int) -> None:
        """Act on claims missing at once, on a surplus when it stays: its turn may just be unanswered."""
        held = len(session.held())
        surplus = claims > held
        if claims < held or (surplus and self._surplus):
            session.recount()
        self._surplus = surplus and not self._surplus
