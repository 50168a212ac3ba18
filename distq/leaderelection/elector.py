"""Elect one leader among processes, by client-go's algorithm with its known gaps closed.

A leader renews its record each retry_period. A follower takes over when the record has not changed for the
duration that it names, measured on the follower's own monotonic clock, so wall clocks may be wrong. The
leader gives up earlier (renew_deadline), even if it was paused. Acts outside the process must still check the
term's epoch.
"""

import logging
import random
import threading
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import ConfigError, Conflict, LeaseLost
from distq.leaderelection.announcer import Announcer
from distq.leaderelection.config import JITTER_FACTOR, LeaderElectionConfig
from distq.leaderelection.lock import LeaderElectionRecord, exclusive
from distq.leaderelection.observation import RELEASED, Observation
from distq.leaderelection.wakeup import Wakeup
from distq.wording import duration

logger = logging.getLogger(__name__)

TRIES = 4  # at once, after conflicts; then again after a retry period
SHORTEST_TIMEOUT = 1.0  # seconds that the store gets to answer, if the deadline permits


class LeaderElector:
    """Compete for a lock, and keep it while leading.

    Source: client-go tools/leaderelection LeaderElector. Different: ``on_stopped_leading`` is called only
    after a term, and before the lease is released; only a leader that is to stop releases the lease, after
    ``on_started_leading`` returned; a rival's record ends the term at the next try, not at the deadline; if a
    record is deleted, a process that saw it waits for a lease_duration before it makes another.
    """

    def __init__(self, config: LeaderElectionConfig, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._config = config
        self._lock = config.lock
        self._clock = clock
        self._announcer = Announcer(config, clock)
        self._name = config.lock.describe()
        self._wakeup = Wakeup(clock, self._name)
        self._failures: list[BaseException] = []  # of the latest term's work, at most one
        # the watch's thread observes, too, and any thread may ask
        self._mutex = threading.Lock()
        self._observed = Observation(config.lock.identity, config.lease_duration)
        self._term: LeaderElectionRecord | None = None
        self._renewed_at = 0.0
        self._epoch = ""

    def run(self, stop: threading.Event) -> None:
        """Wait for leadership and keep it, until ``stop`` is set or the term ends.

        No failure of the lock's store ends it: a follower tries on, a leader until its deadline. Raises the
        error of ``on_started_leading`` after the term that it ended, and ConfigError if an elector of this
        process competes with the same lock.
        """
        with exclusive(self._lock), self._wakeup.set_by(stop), self._announcer.exposing(self.is_leader):
            if self._acquire(stop):
                self._lead(stop)

    @property
    def identity(self) -> str:
        """Return this process's name in the record."""
        return self._lock.identity

    @property
    def epoch(self) -> str:
        """Return the version of the write that began the latest term; grows with each term, "" before any."""
        return self._epoch

    def is_leader(self) -> bool:
        """Return whether a term of this process runs; it may be about to end, see ``may_act``."""
        return self._term is not None

    def get_leader(self) -> str:
        """Return the identity of the leader last observed; empty when there is none."""
        record = self._observed.record
        return record.holder_identity if record else ""

    def may_act(self) -> bool:
        """Return whether no other process can lead now; ask before each act of leadership.

        True while this process leads and its last renewal was sent less than renew_deadline ago. An act that
        begins then has lease_duration - renew_deadline to end.
        """
        now = self._clock.monotonic()
        with self._mutex:
            return self._term is not None and now - self._renewed_at < self._config.renew_deadline

    def check(self, max_tolerable_expired_lease: float = 0.0) -> None:
        """Raise LeaseLost if this process leads with a lease that expired longer ago than so many seconds.

        Source: client-go tools/leaderelection LeaderElector.Check, for health endpoints.
        """
        now = self._clock.monotonic()
        with self._mutex:
            age = now - self._renewed_at
            leads = self._term is not None
        if leads and age > self._config.lease_duration + max_tolerable_expired_lease:
            name = self._config.name or self._name
            raise LeaseLost(f"lease {name}: not renewed for {duration(age)}. Restart this process.")

    # The two halves of run()

    def _acquire(self, stop: threading.Event) -> bool:
        """Compete until this process leads (True) or is to stop (False)."""
        logger.info("%s: %s wants to lead", self._name, self.identity)
        with self._lock.watch(self._on_record):
            while not stop.is_set():
                if self._try_acquire_or_renew():
                    return True
                self._wait_for_turn(stop)
        return False

    def _lead(self, stop: threading.Event) -> None:
        # a list of its own: the work of a term that was lost may fail during the next one
        over = threading.Event()
        failures = self._failures = []
        work = threading.Thread(
            target=self._work, args=(over, failures), name=f"distq-leading-{self._name}", daemon=True
        )
        held = True
        try:
            work.start()
            self._announcer.happened("became leader")
            held = self._renew(stop)
        finally:
            with self._mutex:  # first: may_act() is False before a callback is called
                term, self._term = self._term, None
            over.set()
            try:
                self._config.on_stopped_leading()
            finally:
                self._announcer.happened("stopped leading")
                if held and self._config.release_on_cancel:
                    self._release(term, work)
                if failures:  # its error ended the term; one of the callback is its context
                    raise failures[0]

    def _work(self, over: threading.Event, failures: list[BaseException]) -> None:
        try:
            self._config.on_started_leading(over)
        except BaseException as error:  # noqa: BLE001 - run() raises it: a leader without work is of no use
            if over.is_set():
                logger.warning("%s: the work of a term failed after its end: %r", self._name, error)
            failures.append(error)
            self._wakeup.set()

    def _renew(self, stop: threading.Event) -> bool:
        """Renew until it is to stop (True) or until the lease is lost (False)."""
        self._wakeup.clear()  # the watch may have received its own record
        while not self._shall_stop(stop):
            self._wakeup.wait_once(min(self._config.retry_period, self._until_deadline()))
            if self._shall_stop(stop):
                break
            try:
                if not self.may_act():
                    raise LeaseLost(f"not renewed for {duration(self._since_renewal())}")
                self._try_acquire_or_renew()
            except LeaseLost as error:
                logger.error("%s: %s lost the lease: %s", self._name, self.identity, error)
                return False
        return True

    def _shall_stop(self, stop: threading.Event) -> bool:
        return stop.is_set() or bool(self._failures)

    def _release(self, term: LeaderElectionRecord | None, work: threading.Thread) -> None:
        """Free the lease for others, if the work of the term has ended; within the renew deadline."""
        if work.ident is not None:  # it may not have been able to start
            work.join(max(0.0, self._until_deadline()))
        if work.is_alive():
            logger.warning("%s: not released, on_started_leading still runs; it will expire", self._name)
            return
        give_up_at = self._clock.monotonic() + max(self._until_deadline(), SHORTEST_TIMEOUT)
        for attempt in count(1):
            try:
                self._write_release(term, give_up_at)
                return
            except Exception as error:  # noqa: BLE001 - the end of a term must not fail
                failure = error
            if not isinstance(failure, Conflict) or attempt >= TRIES:
                self._wakeup.wait_once(min(self._config.retry_period, give_up_at - self._clock.monotonic()))
            if self._clock.monotonic() >= give_up_at:
                break
        logger.warning("%s: not released, it will expire: %s", self._name, failure)

    def _write_release(self, term: LeaderElectionRecord | None, give_up_at: float) -> None:
        record = self._lock.get(timeout=self._timeout(give_up_at))
        if record is None or not _same_term(record, term):
            return
        now = self._now()
        released = replace(
            record, holder_identity="", lease_duration=RELEASED, acquire_time=now, renew_time=now
        )
        self._observe(self._lock.update(released, timeout=self._timeout(give_up_at)))
        logger.info("%s: %s released the lease", self._name, self.identity)

    # One try

    def _try_acquire_or_renew(self) -> bool:
        """Acquire or renew the lease, trying again at once after conflicts; return whether this worked."""
        try:
            for attempt in range(TRIES):
                try:
                    leads = self._acquire_or_renew(read=attempt > 0 or self._term is None)
                except Conflict as error:
                    conflict = error  # another process was quicker; see which
                else:
                    self._announcer.outage.over()
                    return leads
            raise conflict
        except (LeaseLost, ConfigError):
            raise
        except Exception as error:  # noqa: BLE001 - a later try may work
            self._announcer.outage.failed(error)
        return False

    def _acquire_or_renew(self, *, read: bool) -> bool:
        """Write the record if this process leads or may lead; a leader first tries without reading it."""
        record = self._observed.record
        if read:
            if self._term is not None:
                self._announcer.renews_slowly()
            record = self._lock.get(timeout=self._timeout())
            remaining = self._observe(record)
            if self._term is None and remaining > 0:
                return False
            if self._term is not None and record is not None and not _same_term(record, self._term):
                if record.holder_identity == self.identity:
                    raise LeaseLost(
                        f'another process is "{self.identity}", too. Give each an identity of its own'
                    )
                raise LeaseLost(f'the holder is "{record.holder_identity}" now')
        self._write(record)
        return True

    def _write(self, record: LeaderElectionRecord | None) -> None:
        """Replace the record, or create it; without a term this begins one."""
        now = self._now()
        term, last = self._term, record or self._observed.record
        # as client-go counts: not if the same process leads again
        takes_over = term is None and last is not None and last.holder_identity != self.identity
        new = LeaderElectionRecord(
            holder_identity=self.identity,
            lease_duration=self._config.lease_duration,
            acquire_time=term.acquire_time if term else now,
            renew_time=now,
            leader_transitions=(last.leader_transitions if last else 0) + takes_over,
        )
        write = self._lock.create if record is None else self._lock.update
        sent_at = self._clock.monotonic()
        written = write(new, timeout=self._timeout())
        written_at = self._clock.monotonic()
        with self._mutex:
            self._renewed_at = sent_at  # a follower may have seen the record right then
            if term is None:
                self._term, self._epoch = written, written.version
            self._observed.note(written, written_at)
        self._announcer.observed(self.identity)

    def _timeout(self, give_up_at: float = float("inf")) -> float:
        """Return how long the store may take to answer: half the deadline, and never past a leader's own."""
        timeout = max(SHORTEST_TIMEOUT, self._config.renew_deadline / 2)
        left = give_up_at - self._clock.monotonic() if self._term is None else self._until_deadline()
        return max(0.05, min(timeout, left))

    # The leader, as observed

    def _on_record(self, record: LeaderElectionRecord) -> None:
        now = self._clock.monotonic()
        with self._mutex:
            # a watch may lag, so a leader believes only its own reads
            news = self._term is None and self._observed.note(record, now)
        if news:
            self._announcer.observed(record.holder_identity)
            self._wakeup.set()

    def _observe(self, record: LeaderElectionRecord | None) -> float:
        """Note a record that was read, and return for how many seconds another process may still lead."""
        now = self._clock.monotonic()
        with self._mutex:  # in one step: the watch's thread may receive old news right afterwards
            if record is None:
                self._observed.note_gone(now)
            else:
                self._observed.note(record, now)
            remaining = self._observed.remaining(now)
        if record is not None:
            self._announcer.observed(record.holder_identity)
        return remaining

    def _since_renewal(self) -> float:
        return self._clock.monotonic() - self._renewed_at

    def _until_deadline(self) -> float:
        return self._config.renew_deadline - self._since_renewal()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)

    # Waiting

    def _wait_for_turn(self, stop: threading.Event) -> None:
        """Wait until it is to stop, the lease ended or was released, or nothing was received for a while."""
        while True:
            period = self._config.retry_period * (1 + random.random() * JITTER_FACTOR)
            remaining = self._remaining()
            woken = self._wakeup.wait_once(min(period, remaining) if remaining > 0 else period)
            if stop.is_set() or not woken or self._remaining() <= 0:
                return

    def _remaining(self) -> float:
        """Return for how many seconds another process may still lead; 0 or less when none may."""
        now = self._clock.monotonic()
        with self._mutex:
            return self._observed.remaining(now)


def _same_term(record: LeaderElectionRecord, term: LeaderElectionRecord | None) -> bool:
    # another process of the same identity differs by the beginning of its term
    return term is not None and (record.holder_identity, record.acquire_time) == (
        term.holder_identity,
        term.acquire_time,
    )
