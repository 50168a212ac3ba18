"""The life of one queue handle's session in Redis: opened, kept alive, lost, closed.

A session makes one turn at a time, so that a lost reply can be asked for again. Calls of other threads
meanwhile travel together in the next turn. All claims of a session end with it.
"""

import atexit
import logging
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from distq.errors import DistqError, QueueTaken, RedisError, RedisUnavailable
from distq.redisio.keys import LAYOUT, text_of
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import ClaimRecord
from distq.wording import counted, duration
from distq.workqueue.call_combiner import CallCombiner, PendingCall
from distq.workqueue.claim_deadline import ClaimDeadline
from distq.workqueue.claim_ledger import ClaimLedger
from distq.workqueue.engine import Entry, TurnSettings
from distq.workqueue.heartbeat import Heartbeat
from distq.workqueue.interface import Disposition, Request, Turn
from distq.workqueue.lost_sessions import LostSessions
from distq.workqueue.queue_ownership import LOOK_EVERY, QueueOwnership
from distq.workqueue.rate_limiters import microseconds
from distq.workqueue.turn_client import TurnClient
from distq.workqueue.wait_coordinator import WaitCoordinator
from distq.workqueue.worker import Worker

_logger = logging.getLogger("distq.queue")

_RESTING_WAIT = 1.0
"""Seconds between turns of a handle that holds a suspect, empties itself for one, or needs a heartbeat."""

CLOSING_TIME = 1.0
"""Seconds that Redis gets to answer when a session is closed; without an answer the session lapses."""

_EXIT_TIME = 0.3
"""Seconds that the end of a process waits for turns of other threads; they take ms while Redis answers."""


class RedisSession:
    """All claims of one handle in Redis; safe for threads and forks. See ``HandleSession``."""

    def __init__(
        self,
        store: QueueStore,
        settings: TurnSettings,
        on_cancel: Callable[[Request], None],
    ) -> None:
        self.store = store
        self.claim_duration = settings.options.claim_duration
        self.clock = settings.options.clock
        self.max_clock_step = microseconds(min(self.claim_duration / 3, 10.0))
        """How far one script may move the claim clock, µs."""
        self._settings = settings
        self._on_cancel = on_cancel
        self._stopped = False
        self._begin()
        _sessions.add(self)

    def _begin(self) -> None:
        """Start from nothing; also in the child of a fork: the claims stay with the parent."""
        self._turn_lock = threading.Lock()
        self._combiner = CallCombiner(self._turn_lock, self._make_turn)
        self._waits = WaitCoordinator(self.store)
        self._forget()

    def _forget(self, old: ClaimLedger | None = None) -> None:
        """Hold nothing and have no session; the results of an ``old`` ledger stay for repeated calls."""
        worker, ownership, lost = (
            Worker(self._settings),
            QueueOwnership(self.store, self.clock),
            LostSessions(),
        )
        deadline = ClaimDeadline(self.claim_duration, self.clock)
        ledger = ClaimLedger(self.store.name, on_cancel=self._on_cancel, on_drained=self.interrupt)
        if old is not None:
            ledger.results = old.all_results()
        client = TurnClient(
            self.store,
            self._settings,
            ledger,
            worker,
            deadline,
            max_clock_step=self.max_clock_step,
            open_session=self._open,
            describe=lambda: self.worker.describe(self.clock),
            may_claim=self._may_claim,
            on_lost=self._lose,
            on_went_back=self._compare,
        )
        self.worker, self._ownership, self._lost = worker, ownership, lost
        self.deadline, self._ledger, self._client = deadline, ledger, client
        self._refusal: QueueTaken | None = None
        """Set once another program works on the queue: from then on calls that want claims raise it."""
        self.turns = 0
        """Counts the begins and ends of turns: odd while one is under way."""
        self._heartbeat: Heartbeat | None = None

    @property
    def id(self) -> str:
        """Return the session's name in Redis, empty while there is none."""
        return self._client.session

    # For its handle

    def turn(self, entries: Sequence[Entry], want: int, ahead: int = 0) -> Turn:
        """Settle and claim, together with the calls of other threads; see ``TurnQueue.turn``."""
        try:
            turn = self._combiner.call(entries, want, ahead)
        finally:
            if self._stopped:
                self._close_when_idle()
        if want and self._refusal is not None:
            raise self._refusal
        return turn

    def take_spare(self) -> Request | None:
        """Return a request that was claimed ahead, if any, without a turn and without waiting for one."""
        if self._stopped or self.deadline.is_over():
            return None
        for request in self._ledger.take(1):
            if not request.cancelled.is_set():
                return request
        return None

    def take_back(self, entries: Sequence[Entry], turn: Turn) -> None:
        """Release the claims of a turn whose caller was interrupted; keep the results of its entries."""
        with self._turn_lock:
            self._ledger.take_back(entries, turn)
            self._release_spare()
        if self._stopped:
            self._close_when_idle()

    def wait(self, seconds: float, at_most: float | None = None) -> None:
        """Sleep until there may be work, at most ``at_most`` seconds.

        One thread sleeps on Redis for all, for ``seconds`` at most; the others wait until they take over.
        """
        for_work = not (self._ledger.draining or self._ownership.waits)
        try:
            self._waits.wait(seconds, at_most, for_work=for_work)
        finally:
            if self._stopped:
                self._close_when_idle()

    def interrupt(self) -> None:
        """End the running waits, or the next one, at once."""
        self._waits.interrupt()

    def stop(self) -> None:
        """Claim nothing from now on, end all waits, and close the session as soon as it holds nothing."""
        self._stopped = True
        self._waits.end()
        self._close_when_idle()

    def announce_stop(self) -> None:
        """Announce with the next heartbeat, within two seconds, that the process is stopping."""
        self.worker.stopping = True

    def held(self) -> Sequence[Request]:
        """Return the requests that this session holds."""
        return list(self._ledger.held.values())

    def claiming(self) -> Sequence[int]:
        """Return the threads whose turns may still bring a claim."""
        return self._combiner.claiming()

    @property
    def worker_name(self) -> str:
        """Return the name of this session's worker record."""
        return self.worker.name

    def is_kept_alive(self) -> bool:
        """Return whether the threads that keep the claims alive run; True if none is needed."""
        return self._heartbeat is None or self._heartbeat.is_alive()

    def close(self, turn_time: float = CLOSING_TIME) -> None:
        """Release all claims and end the session; the next turn would open another.

        Raises RedisUnavailable if Redis does not answer; a turn under way gets ``turn_time`` seconds.
        """
        if self._turn_hangs(turn_time):
            after = duration(self.claim_duration)
            raise RedisUnavailable(
                f"not closed: a turn waits for Redis. The claimed items come back in {after}."
            )
        with self._turn_lock:
            self._close(self._ledger.take_spare())

    def _turn_hangs(self, seconds: float) -> bool:
        """Wait for the end of the turn under way; return whether it takes longer than ``seconds``."""
        turns, until = self.turns, time.monotonic() + seconds
        while self._turn_lock.locked() and self.turns == turns:
            if time.monotonic() >= until:
                return True
            time.sleep(0.001)
        return False

    # For its heartbeat

    def knows(self, turn: str) -> bool:
        """Return whether the last turn that Redis has is the last one here, or one in doubt."""
        return self._client.knows(turn)

    def cancel_held(self, why: str) -> None:
        """Cancel all requests at once; from then on they cannot be settled."""
        self._ledger.cancel_all(why)
        self.interrupt()

    def recount(self) -> None:
        """Compare the claims with the server's: cancel those gone there, release those unknown here."""
        with self._turn_lock:
            self._client.resolve_doubt()
            self._ledger.take_spare()  # the server has them and no caller, so they are released below
            self._client.release(self._ledger.compare(self._fences()))
        if self._stopped:
            self._close_when_idle()

    def _fences(self) -> dict[str, int]:
        """Return the fences of this session's claims in Redis, by key."""
        number = self.id.partition("-")[0]
        (items,) = self.store.read(("ZRANGEBYSCORE", "processing", number, number))
        (claims,) = self.store.read(("HMGET", "claims", *items)) if items else ((),)
        return {
            text_of(item): ClaimRecord.parse(text or b"").fence
            for item, text in zip(items, claims, strict=True)
        }

    # One turn for all waiting calls

    def _make_turn(self, calls: Sequence[PendingCall]) -> None:
        self.turns += 1
        try:
            self._answer(calls)
        except BaseException as error:
            why = error if isinstance(error, RedisError) else RedisUnavailable("the turn failed. Try again.")
            for call in calls:
                if not call.is_answered:
                    call.error = why
            if why is not error:
                raise
        finally:
            self.turns += 1

    def _answer(self, calls: Sequence[PendingCall]) -> None:
        """Settle the entries of all calls, claim the items they lack beyond the spare ones, and answer."""
        ledger, client = self._ledger, self._client
        client.resolve_doubt()
        ledger.leave_cancelled()
        entries = [entry for call in calls for entry in call.entries]
        sent, want = ledger.sendable(entries), sum(call.want for call in calls)
        stopped, too_late = self._stopped, bool(self.id) and self.deadline.is_over()
        claims = not stopped and not too_late and ledger.may_claim(sent)
        ahead = sum(call.ahead for call in calls)
        missing = max(0, want + ahead - ledger.n_spare()) if claims else 0
        wait = 0.0
        is_known = not sent and not missing and bool(entries or (want and claims))
        if not is_known and (self.id or sent or not stopped):
            wait = client.send(sent, missing)
        requests = [] if stopped or self.deadline.is_over() else ledger.take(want)
        if self._ownership.waits:
            wait = LOOK_EVERY
            client.leave()
        if ledger.draining or too_late:
            wait = _RESTING_WAIT
        self._hand_out(requests, ledger.take_results(entries), calls, wait)

    def _hand_out(
        self,
        requests: Sequence[Request],
        dispositions: Sequence[Disposition],
        calls: Sequence[PendingCall],
        wait: float,
    ) -> None:
        """Answer each call with its part of the results."""
        fence = self._client.fence
        for call in calls:
            own, requests = requests[: call.want], requests[call.want :]
            results, dispositions = dispositions[: len(call.entries)], dispositions[len(call.entries) :]
            call.turn = Turn(own, results, wait, *self._ledger.take_promoted(), fence)

    def release_spare(self) -> None:
        """Release items that were claimed ahead, unless another thread makes a turn just now.

        That thread may take them, and a heartbeat releases the rest. The end of a ``listen`` loop calls this,
        also from the garbage collector, which may run at any point: so it waits for no lock.
        """
        if not self._ledger.n_spare() or not self._turn_lock.acquire(blocking=False):
            return
        try:
            self._release_spare()
        finally:
            self._turn_lock.release()
        if self._stopped:  # a stop during this left the closing to it
            self._close_when_idle()

    def spare_fences(self) -> set[int]:
        """Return the fences of the spare requests."""
        return self._ledger.spare_fences()

    def _release_spare(self, taken: Sequence[Request] = ()) -> None:
        """Release the spare claims and those ``taken`` before; after an error a heartbeat does it later."""
        try:
            self._client.resolve_doubt()
            self._client.release([*taken, *self._ledger.take_spare()])
        except DistqError as error:  # of any kind: the end of a loop calls this, too
            _logger.warning("queue %s: not released yet: %s", self.store.name, error)

    # Beginning and end

    def _open(self) -> str:
        self._lost.forgive(self.store)
        sent_at = self.clock.monotonic()
        session: bytes = self.store.run(
            "open",
            layout=LAYOUT,
            nonce=secrets.token_urlsafe(16),
            claim_duration=microseconds(self.claim_duration),
            max_clock_step=self.max_clock_step,
            worker=self.worker.describe(self.clock),
        )
        if self._heartbeat is None:
            self._heartbeat = Heartbeat(self)
        self.deadline.begin(sent_at)
        self._heartbeat.begin()
        return session.decode()

    def _may_claim(self) -> bool:
        """Return whether the open session may claim: only after it has checked the others on the queue."""
        if self._settings.purpose is None:
            return True
        try:
            return self._ownership.allows(self.id, self._settings.purpose())
        except QueueTaken as error:
            self._refusal = error
            return False

    def _lose(self, session: str) -> None:
        """Give up a session that the server no longer has; the next turn opens another."""
        stood_still = self._heartbeat.stood_still() if self._heartbeat is not None else 0.0
        fences = self._ledger.lose()
        if fences and stood_still > self.claim_duration / 3:
            _logger.warning(
                "queue %s: this process did not run for %s or more (a handler held the interpreter, or it "
                "was frozen); its session lapsed, and its %s went to other workers without a crash",
                self.store.name,
                duration(stood_still),
                counted(len(fences), "item"),
            )
        else:
            lost = counted(len(fences), "claim")
            _logger.warning("queue %s: session lost, %s cancelled", self.store.name, lost)
        self._lost.add(session, fences)
        self._lost.forgive(self._client.store)
        self.interrupt()

    def _compare(self) -> Sequence[Request]:
        """Redis went back to an older state: cancel claims gone there, return those unknown here."""
        _logger.warning("queue %s: Redis went back, comparing the claims", self.store.name)
        return self._ledger.compare(self._fences())

    def _close_when_idle(self) -> None:
        """Close the session unless a caller holds a claim; then release those that were claimed ahead.

        After ``stop`` each turn calls this at its end, so this need not wait for a turn under way.
        """
        if not self._turn_lock.acquire(blocking=False):
            return
        try:
            spare = self._ledger.take_spare()  # before the look: a caller that got one goes on with it
            if not self._ledger.held:
                self._close(spare)
            elif spare:
                with self._short_timeouts():
                    self._release_spare(spare)
        except RedisError as error:
            _left_to_lapse(self, error)
        finally:
            self._turn_lock.release()

    def _close(self, spare: Sequence[Request]) -> None:
        """Release all claims and end the session; ``spare`` was taken from the ledger before."""
        why = "its session is closed"
        held = self._ledger.cancel_all(why)
        self.interrupt()
        try:
            with self._short_timeouts() as store:
                self._client.resolve_doubt()
                held += self._ledger.cancel_all(why)  # claims of the turn in doubt
                self._client.release([*spare, *held])
                worker = self.worker.describe(self.clock)
                if self.id and not store.run("close", session=self.id, worker=worker):
                    self._lost.add(self.id, self._ledger.lose())
                    self._lost.forgive(store)
        finally:  # without an answer the session lapses
            if self._heartbeat is not None:
                self._heartbeat.stop()
            self._waits.close()
            self._client.give_up()
            self._forget(self._ledger)
            self._settings.on_closed()

    @contextmanager
    def _short_timeouts(self) -> Iterator[QueueStore]:
        """Let the turns of a shutdown wait ``CLOSING_TIME`` seconds at most; give the store that they use."""
        connection = self.store.connection.with_timeout(CLOSING_TIME, repeats=True)
        self._client.store = self.store.over(connection)
        try:
            yield self._client.store
        finally:
            connection.close()
            self._client.store = self.store


_sessions: "weakref.WeakSet[RedisSession]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for session in list(_sessions):
        session._begin()  # noqa: SLF001  # this module's own


def _close_all() -> None:
    """Release a process's claims at its normal end, so that no item waits for a session to lapse."""
    until = time.monotonic() + CLOSING_TIME
    for session in list(_sessions):
        try:
            if session.id and time.monotonic() > until:
                raise RedisUnavailable("no time is left, since Redis did not answer.")
            session.stop()  # so that threads which still run claim nothing more
            if session.id:
                session.close(_EXIT_TIME)
        except DistqError as error:
            _left_to_lapse(session, error)


def _left_to_lapse(session: RedisSession, why: DistqError) -> None:
    _logger.warning("queue %s: session not closed, it will lapse: %s", session.store.name, why)


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_close_all)
