"""Keeps a session alive from its own thread; a second thread cancels the claims when that fails."""

import logging
import math
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from distq.errors import DistqError
from distq.outage import Outage
from distq.workqueue.rate_limiters import microseconds

if TYPE_CHECKING:
    from distq.workqueue.redis_session import RedisSession

_logger = logging.getLogger("distq.queue")


NEWS_INTERVAL = 1.5
"""Seconds between heartbeats while the counts of the worker change, so that ``distq workers`` is current."""


class Heartbeat:
    """Beats for a session every third of its claim duration, at most 10 s apart, and sooner while it works.

    Another thread watches the deadline, and cancels the claims once it has passed.
    """

    def __init__(self, session: "RedisSession") -> None:
        self._session = weakref.ref(session)  # one that was dropped without being closed shall lapse
        self._period = min(session.settings.options.claim_duration / 3, 10.0)
        self._patience = self._period / 2
        """Seconds that Redis gets for an answer, and a turn under way for its end: none holds up a beat.

        So two beats may fail before the deadline.
        """
        self._store = session.store.with_timeout(self._patience)  # the connection of the turns may hang
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        """The thread that watches the deadline, and the thread that beats: a DNS look-up may block it."""
        self._surplus = False
        """Whether the server had more claims than this process at the last beat."""
        self._spare: set[int] = set()
        """The fences of the spare claims at the last look."""
        self._give_back_at = math.inf
        """When to release cancelled claims that the server still has: by then their handlers have ended."""
        self._clock = session.clock
        self._outage = Outage(f"queue {self._store.name}: heartbeat", _logger, session.clock)
        self._looks_at = math.inf
        """When the thread that watches the deadline wakes next."""
        self._was_late = 0.0

    def begin(self) -> None:
        """Start the threads unless they run."""
        self._looks_at, self._was_late = self._clock.monotonic() + NEWS_INTERVAL, 0.0
        if not self._threads:
            self._threads = [self._start("deadline", self._watch), self._start("heartbeat", self._run)]

    def _start(self, task: str, run: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=run, name=f"distq-{task}-{self._store.name}", daemon=True)
        thread.start()
        return thread

    def is_alive(self) -> bool:
        """Return whether its threads run, or were stopped."""
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
            # past its deadline a session claims nothing until a beat is answered
            is_due = slept >= period or session.client.worker.has_news() or session.client.deadline.is_over()
            good = self._look(session, beats=is_due)
            if is_due:
                period, slept = self._until_next(good=good), 0.0
            del session  # or this thread would keep it while it waits
        self._store.connection.close()

    def _look(self, session: "RedisSession", *, beats: bool) -> bool:
        """Beat if it is due; return whether that worked. No error ends the thread: the claims live by it."""
        good = False
        try:
            good = beats and self.beat(session)
            self.release_unwanted(session)
            if good:
                self._outage.over()
        except DistqError as error:
            self._outage.failed(error)
        except Exception:
            _logger.exception("queue %s: heartbeat failed", self._store.name)
        return good

    def release_unwanted(self, session: "RedisSession") -> None:
        """Release claims ahead that their loop has not fetched since the last look: it may never."""
        spare = session.ledger.spare_fences()
        if spare & self._spare:
            session.release_spare(self._store)
        self._spare = spare

    def _until_next(self, *, good: bool) -> float:
        """Return the seconds from one heartbeat to the next.

        After a failure it is short: one period may have passed before it, and Redis counts at most one more
        for the outage once it is back. So a third of the claim duration is left.
        """
        if not good:
            return min(self._period / 4, 1.0)
        until_give_back = self._give_back_at - self._clock.monotonic()
        return min(self._period, max(until_give_back, 0.1))  # a turn under way may have put it off

    def stood_still(self) -> float:
        """Return the longest time, in seconds, for which this process did not run since the last good beat.

        It is the largest delay of the thread that watches the deadline, since that thread only waits.
        """
        return max(self._was_late, self._clock.monotonic() - self._looks_at)

    def _watch(self) -> None:
        pause = NEWS_INTERVAL  # no longer: a wait does not count the time of a suspended machine
        while not self._stopped.wait(pause):
            woke_at, self._was_late = self._clock.monotonic(), self.stood_still()
            session = self._session()
            if session is None:
                break
            self.fence_if_late(session)
            left = session.client.deadline.left()
            pause = min(left, NEWS_INTERVAL) if left > 0 else NEWS_INTERVAL
            self._looks_at = woke_at + pause  # not from now: the process may have been suspended since
            del session

    def fence_if_late(self, session: "RedisSession") -> None:
        """Cancel all held requests once the deadline has passed; soon other sessions may have them."""
        if session.client.deadline.take_missed():
            ended_at = self._clock.monotonic() + session.client.deadline.cancel_time
            if session.held():
                session.ledger.cancel_all("no heartbeat reached Redis in time")
                self._give_back_at = ended_at
            self._give_back_at = min(self._give_back_at, ended_at)

    def beat(self, session: "RedisSession") -> bool:
        """Send one heartbeat and compare the claims; return whether the server has the session."""
        before, identity, sent_at = session.at_rest(), session.id, self._clock.monotonic()
        settings = session.settings  # not kept: they lead to the handle, and the session shall end with it
        was_late = self._was_late
        if not identity:
            return True
        reply = self._store.run(
            "heartbeat",
            session=identity,
            claim_duration=microseconds(settings.options.claim_duration),
            max_clock_step=settings.max_clock_step,
            worker=session.client.worker.describe(),
        )
        if reply == b"LOST":
            if session.id == identity:  # else it was closed meanwhile
                session.ledger.cancel_all("its session lapsed")
            # it finds that the session is lost, and removes the crashes of its items
            session.check(identity, self._store, self._patience)
            return False
        if session.id == identity:
            session.client.deadline.extend(sent_at)
            if self._was_late == was_late:  # otherwise the process was suspended since
                self._was_late = 0.0
        self.fence_if_late(session)
        claims, turn = reply
        undisturbed = before is not None and session.at_rest() == before
        if undisturbed and not session.client.knows(turn.decode()):
            # Redis went back: the count may match, but the claims differ
            session.check(identity, self._store, self._patience)
        if (at := self._give_back_at) < math.inf:  # also during turns: a busy session always has one
            if self._clock.monotonic() >= at:
                self._give_back(session, at)
        else:
            self._compare(session, claims)
        return True

    def _give_back(self, session: "RedisSession", at: float) -> None:
        """Release cancelled claims that the server still has here: their handlers had time to end."""
        recounted = session.recount(self._store, self._patience)
        if recounted and self._give_back_at == at:  # otherwise more claims were cancelled meanwhile
            self._give_back_at = math.inf
        session.interrupt()

    def _compare(self, session: "RedisSession", claims: int) -> None:
        """Act on missing claims at once, on surplus ones at the second beat: a reply may be on its way.

        A turn since the beat changes the number, too, and the recount then finds no difference. But a busy
        session always has such a turn, and must notice lost claims as soon as an idle one.
        """
        held = session.held()
        surplus = claims > held
        if claims < held or (surplus and self._surplus):
            session.recount(self._store, self._patience)
        self._surplus = surplus and not self._surplus  # after a recount, two beats have to agree again
