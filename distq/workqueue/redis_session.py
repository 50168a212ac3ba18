"""The life of one queue handle's session in Redis: opened, kept alive, lost, closed.

A session makes one turn at a time, so that a lost reply can be asked for again. Calls of other threads
meanwhile travel together in the next turn. All claims of a session end with it.

Here are its threads, and when they may act. Under the turn lock ``TurnClient`` speaks with Redis, and
``ClaimLedger`` has the claims.
"""

import atexit
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial

from distq.errors import DistqError, RedisError, RedisUnavailable
from distq.forks import begin_after_fork
from distq.instances import Instances
from distq.redisio.limits import TURN_LIMIT
from distq.redisio.queue_store import QueueStore
from distq.redisio.sleeper import FollowUp, Sleeper
from distq.wording import counted, duration
from distq.workqueue.call_combiner import CallCombiner
from distq.workqueue.claim_ledger import ClaimLedger
from distq.workqueue.dispositions import Dispositions
from distq.workqueue.engine import Entry, OnClaims, TurnSettings
from distq.workqueue.heartbeat import Heartbeat
from distq.workqueue.interface import Turn
from distq.workqueue.request import Request, is_cancelled
from distq.workqueue.turn_client import TurnClient

_logger = logging.getLogger("distq.queue")

_RESTING_WAIT = 1.0
"""Seconds between turns of a handle that holds a suspect, empties itself for one, or needs a heartbeat."""

CLOSING_TIME = 1.0
"""Seconds that Redis gets to answer when a session is closed; without an answer the session lapses."""

_EXIT_TIME = 0.3
"""Seconds that the end of a process waits for a turn of another thread; it takes ms while Redis answers."""


class RedisSession:
    """All claims of one handle in Redis; safe for threads and forks. See ``HandleSession``.

    A thread that changes the session has the turn lock. Once the handle is stopped, each such thread closes
    the session at its end if that holds nothing: so ``stop`` need not wait for the lock.
    """

    def __init__(self, store: QueueStore, settings: TurnSettings) -> None:
        self.store = store
        self.clock = settings.options.clock
        self.settings = settings
        self._stopped = False
        self._sleeper = Sleeper(store.connection, store.key("wake"))
        self.begin()
        begin_after_fork(self)
        _sessions.add(self)

    def begin(self) -> None:
        """Start from nothing; also in the child of a fork: the claims stay with the parent."""
        self._turn_lock = threading.Lock()
        self._combiner = CallCombiner(self._turn_lock, self._make_turn)
        self._dispositions = Dispositions()
        self.settings.callbacks.begin()
        self._forget()

    def _forget(self) -> None:
        """Hold nothing and have no session."""
        self.ledger = ClaimLedger(
            self.store.name, on_cancel=self.settings.on_cancel, interrupt=self.interrupt
        )
        self.client = TurnClient(
            self.store,
            self.settings,
            self.ledger,
            self._dispositions,
            on_open=self._begin_heartbeat,
            on_loss=self._report_loss,
        )
        self._heartbeat: Heartbeat | None = None

    @property
    def id(self) -> str:
        """Return the session's name in Redis, empty while there is none."""
        return self.client.session

    # For its handle

    def turn(
        self, entries: Sequence[Entry], want: int, ahead: int = 0, on_claims: OnClaims | None = None
    ) -> Turn:
        """Settle and claim, together with the calls of other threads; see ``HandleSession``."""
        try:
            turn = self._combiner.call(entries, want, ahead, on_claims)
        finally:
            if self._stopped:  # a stop in the midst of the turn left the closing to this thread
                self._close_if_stopped()
        if want and self.client.ownership.refusal is not None:
            raise self.client.ownership.refusal
        return turn

    def take_spare(self) -> Request | None:
        """Return a request that was claimed ahead, if any, without a turn and without waiting for one."""
        if self._stopped or not self.ledger.spare:
            return None
        taken = self.ledger.take(1)
        return taken[0] if taken and not is_cancelled(taken[0], self.clock.monotonic()) else None

    def take_back(self, entries: Sequence[Entry], turn: Turn) -> None:
        """Release the claims of a turn whose caller was interrupted; keep the dispositions of its entries."""
        with self._changing():
            self._dispositions.add(entries, turn.dispositions)
            self.ledger.take_back(turn)
            self._release_spare()

    def release_spare(self, store: QueueStore | None = None) -> None:
        """Release items that were claimed ahead, unless another thread makes a turn just now.

        That thread may take them, and a heartbeat releases the rest, through a ``store`` of its own. The end
        of a ``listen`` loop calls this, also from the garbage collector, which may run at any point: so it
        waits for no lock.
        """
        if self.ledger.spare or self.ledger.unread or self.client.awaits_follow_up:
            with self._changing(0, store) as may_change:
                if may_change:
                    self._release_spare()

    def wait(self, seconds: float, at_most: float | None = None, want: int = 1) -> None:
        """Sleep until there may be work, at most ``at_most`` seconds.

        One thread sleeps on Redis for all, for ``seconds`` at most; the others wait until they take over.
        Redis claims up to ``want`` items as the sleep ends: for this thread, since others wait for their own.
        """
        # while it may claim nothing, other processes get the tokens
        for_work = not (self.ledger.draining or self.client.ownership.rivals)
        follow_up = partial(self._follow_up, want, seconds)
        self._sleeper.wait(seconds, at_most, for_work=for_work, follow_up=follow_up)

    def _follow_up(self, want: int, seconds: float) -> FollowUp | None:
        """Let Redis claim as the wait ends, unless this session may have something to settle before."""
        with self._changing(timeout=0) as may_change:
            if not may_change or len(self.ledger) or self._stopped or not want:
                return None
            return self.client.follow_up(want, seconds)

    def interrupt(self) -> None:
        """End the running waits, or the next one, at once."""
        self._sleeper.interrupt()

    def stop(self) -> None:
        """Claim nothing from now on, end all waits, and close the session as soon as it holds nothing."""
        self._stopped = True
        self._sleeper.end()
        self._close_if_stopped()

    def announce_stop(self) -> None:
        """Announce with the next heartbeat, within two seconds, that the process is stopping."""
        self.client.worker.stopping = True

    def held(self) -> int:
        """Return how many claims this session holds, those that no caller has yet included."""
        return len(self.ledger)

    def is_claiming(self) -> bool:
        """Return whether a turn may still bring a claim."""
        return self._combiner.is_claiming()

    @property
    def worker_name(self) -> str:
        """Return the name of this session's worker record."""
        return self.client.worker.name

    def is_kept_alive(self) -> bool:
        """Return whether the threads that keep the claims alive run; True if none is needed."""
        return self._heartbeat is None or self._heartbeat.is_alive()

    # For its heartbeat, through its ``store``: the connection of the turns may hang, and hold up a beat

    def at_rest(self) -> tuple[str, int] | None:
        """Return the session and its last turn; None while a turn is under way.

        If it is the same twice, no turn came in between.
        """
        last = self.client.session, self.client.op
        return None if self._turn_lock.locked() else last  # in this order: a turn may begin at any moment

    def check(self, session: str, store: QueueStore, timeout: float) -> None:
        """Make an empty turn in this session, which finds what Redis has lost; none if it was closed.

        It leaves that to a turn under way that lasts for longer than ``timeout`` seconds.
        """
        with self._changing(timeout, store) as may_change:
            if not may_change:
                return
            self.client.resolve_doubt()
            if self.client.session == session:
                self.client.send([], 0)

    def recount(self, store: QueueStore | None = None, timeout: float = -1) -> bool:
        """Compare the claims with the server's: cancel those gone there, release those unknown here.

        Return False, and do nothing, if a turn lasts longer than ``timeout`` seconds; -1 waits for its end.
        """
        with self._changing(timeout, store) as may_change:
            if may_change:
                self.client.recount()
            return may_change

    def _begin_heartbeat(self) -> None:
        if self._heartbeat is None:
            self._heartbeat = Heartbeat(self)
        self._heartbeat.begin()

    def _report_loss(self, n_claims: int) -> None:
        stood_still = self._heartbeat.stood_still() if self._heartbeat is not None else 0.0
        # not a third: the last heartbeat may be late, and the time until the next planned look does not count
        if n_claims and stood_still > self.settings.options.claim_duration / 6:
            _logger.warning(
                "queue %s: this process did not run for %s or more (a handler held the interpreter, or it "
                "was frozen); its session lapsed, and its %s went to other workers without a crash",
                self.store.name,
                duration(stood_still),
                counted(n_claims, "item"),
            )
        else:
            lost = counted(n_claims, "claim")
            _logger.warning("queue %s: session lost, %s cancelled", self.store.name, lost)

    # One turn for all waiting calls

    def _make_turn(
        self, entries: Sequence[Entry], want: int, ahead: int, on_claims: OnClaims | None = None
    ) -> Turn:
        """Settle the entries, and claim the items that are wanted beyond the spare ones.

        ``on_claims`` receives the spare ones if Redis is asked for a turn, while it makes that.
        """
        ledger, client = self.ledger, self.client
        stopped = self._stopped  # before: a stop in its midst leaves the claims to this caller
        wait = self._ask(entries, want, ahead, on_claims)
        if ledger.unreadable:
            client.end_unreadable()
        # the deadline again: the reply may have come after a freeze, and other workers may have its claims
        requests = [] if not want or stopped or client.deadline.is_over() else ledger.take(want)
        dispositions = self._dispositions.take(entries)
        counts = ledger.promoted, ledger.revived, client.fence, len(ledger.spare) + ledger.unread
        ledger.promoted = ledger.revived = 0
        return Turn(requests, dispositions, wait, *counts)

    def _ask(self, entries: Sequence[Entry], want: int, ahead: int, on_claims: OnClaims | None) -> float:
        """Make a turn if one is needed; return how many seconds a consumer may sleep."""
        ledger, client = self.ledger, self.client
        wait = client.resolve_doubt(0 if self._stopped else want + ahead)
        if ledger.spare:
            ledger.leave_cancelled(self.clock.monotonic())
        sent = ledger.sendable(entries, self._dispositions) if entries else entries
        stopped, too_late = self._stopped, bool(client.session) and client.deadline.is_over()
        claims = not stopped and not too_late and ledger.may_claim(sent)
        spare = len(ledger.spare) + ledger.unread
        missing = want + ahead - spare if claims else 0
        # no turn is needed if the one in doubt has just claimed for this call, or no entry or claim is left
        is_known = not sent and (wait > 0 if missing > 0 else bool(entries or (want and claims)))
        if not is_known and (client.session or sent or not stopped):
            hand_out = None
            if on_claims is not None and claims:
                missing = min(missing, TURN_LIMIT)  # spare ones that its caller knew of may be lost
                hand_out = partial(self._hand_out, on_claims) if spare else None
            try:
                wait = client.send(sent, missing if missing > 0 else 0, hand_out)
            except RedisError:
                if hand_out is not None:  # perhaps nothing was sent; these claims are as good as before
                    hand_out()
                raise
        if ledger.unread and (on_claims is None or is_known):  # else the next turn hands them out
            ledger.read()
        return _RESTING_WAIT if ledger.draining or too_late else wait

    def _hand_out(self, on_claims: OnClaims) -> None:
        """Give the spare claims to their caller."""
        self.ledger.read()
        if requests := self.ledger.take(len(self.ledger.spare)):
            on_claims(requests)

    # The end

    def close(self, turn_time: float = CLOSING_TIME) -> None:
        """Release all claims and end the session; the next turn would open another.

        Raises RedisUnavailable if Redis does not answer; each turn before gets ``turn_time`` seconds.
        """
        turn = self.client.op
        while not self._turn_lock.acquire(timeout=turn_time):
            if self.client.op == turn:
                after = duration(self.settings.options.claim_duration)
                raise RedisUnavailable(
                    f"not closed: a turn waits for Redis. The claimed items come back in {after}."
                )
            turn = self.client.op
        try:
            self._close(self.ledger.take_spare())
        finally:
            self._turn_lock.release()

    @contextmanager
    def _changing(self, timeout: float = -1, store: QueueStore | None = None) -> Iterator[bool]:
        """Hold the turn lock, if it becomes free within ``timeout`` seconds; -1 waits for it.

        Meanwhile calls to Redis go through ``store``, if it is given.
        """
        may_change = self._turn_lock.acquire(timeout=timeout)
        try:
            with self.client.through(store) if may_change and store is not None else nullcontext():
                yield may_change
        finally:
            if may_change:
                self._turn_lock.release()
            self._close_if_stopped()

    def _close_if_stopped(self) -> None:
        """Close the session of a stopped handle, or release the spare claims while a caller holds one."""
        if not self._stopped or not self._turn_lock.acquire(blocking=False):
            return
        try:
            spare = self.ledger.take_spare()  # before the look: a caller that got one goes on with it
            if not self.ledger.held:
                self._close(spare)
            elif spare:
                with self.client.within(CLOSING_TIME):
                    self._release_spare(spare)
        except RedisError as error:
            _left_to_lapse(self, error)
        finally:
            self._turn_lock.release()

    def _close(self, spare: Sequence[Request]) -> None:
        """Release all claims and end the session; ``spare`` was taken from the ledger before."""
        try:
            with self.client.within(CLOSING_TIME):
                self.client.close(spare)
        finally:  # without an answer the session lapses
            if self._heartbeat is not None:
                self._heartbeat.stop()
            self._sleeper.close()
            self._forget()
            self.settings.on_closed()

    def _release_spare(self, taken: Sequence[Request] = ()) -> None:
        """Release the spare claims and those ``taken`` before; after an error a heartbeat does it later."""
        try:
            self.client.resolve_doubt()
            self.client.release([*taken, *self.ledger.take_spare()])
        except DistqError as error:  # of any kind: the end of a loop calls this, too
            _logger.warning("queue %s: not released yet: %s", self.store.name, error)


_sessions = Instances[RedisSession]()


def _close_all() -> None:
    """Release a process's claims at its normal end, so that no item waits for a session to lapse."""
    until = time.monotonic() + CLOSING_TIME
    for session in _sessions:
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


atexit.register(_close_all)
