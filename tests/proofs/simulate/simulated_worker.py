"""A worker process: the real session of a queue's handle, with a reconcile that looks at the cluster."""

from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from distq.clock import Clock
from distq.errors import RedisError
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.redisio.sleeper import FollowUp
from distq.workqueue import redis_session
from distq.workqueue.engine import TurnSettings
from distq.workqueue.heartbeat import Heartbeat
from distq.workqueue.interface import (
    After,
    Disposition,
    Done,
    Outcome,
    Park,
    Release,
    Retry,
    Settlement,
    Success,
)
from distq.workqueue.options import QueueOptions
from distq.workqueue.rate_limiters import ItemExponentialFailureRateLimiter
from distq.workqueue.redis_session import RedisSession
from distq.workqueue.request import Request
from tests.proofs.simulate.faulty_line import FaultyLine

CLAIM_DURATION = 15.0
BEAT_EVERY = 5.0
SLOTS = 3

OUTCOMES: tuple[Outcome, ...] = (
    Success(),
    Success(),
    Success(),
    Success(),
    Done(),
    Retry("no"),
    Retry("no"),
    After(1.0),
    Release(),
    Park("no"),
)


class HeartbeatInStep(Heartbeat):
    """Beats when its worker's turn has come."""

    def begin(self) -> None:
        """Start no thread."""


@dataclass
class Reconcile:
    """One request, and at which moments it was claimed and begun."""

    request: Request
    claimed: int
    began: int = 0


class SimulatedWorker:
    """One process; each step does one thing."""

    def __init__(self, name: str, line: FaultyLine, clock: Clock, limit: int | None) -> None:
        self.name = name
        self.line = line
        self.running: list[Reconcile] = []
        self.answered = False
        """Whether the step was a heartbeat that was answered."""
        self.confirmed_at = 0
        """At which moment Redis last got its heartbeat; a Redis that went back may have forgotten that."""
        self.turned = False
        """Whether the step was a turn."""
        self.dispositions: list[tuple[Request, Disposition]] = []
        """The settlements that were answered in the step."""
        limiter = ItemExponentialFailureRateLimiter(0.1, 2.0)
        options = QueueOptions(rate_limiter=limiter, claim_duration=CLAIM_DURATION, clock=clock)
        self._clock = clock
        store = QueueStore(cast("Connection", line), "foos")
        self.session = RedisSession(store, TurnSettings(options, fleet_concurrency_per_flow=limit))
        redis_session._sessions._by_id.pop(id(self.session))  # its end is no normal end of a process
        self._heartbeat = HeartbeatInStep(self.session)
        self.session._heartbeat = self._heartbeat
        self._beat_at = clock.monotonic()
        self._waiting: list[Reconcile] = []
        self._follow_up: FollowUp | None = None
        """The turn that Redis makes at the end of its wait."""
        self._settlements: list[Settlement] = []

    @property
    def idle(self) -> bool:
        """Return whether it has nothing to do."""
        return not (self.running or self._waiting or self._settlements)

    def beats_next(self, choice: float) -> bool:
        """Return whether its next step is a heartbeat."""
        return self._clock.monotonic() >= self._beat_at or 0.8 < choice < 0.86

    def holds(self) -> list[Request]:
        """Return the requests that it has begun or has yet to begin, and that were not cancelled."""
        requests = [each.request for each in (*self._waiting, *self.running)]
        return [request for request in requests if not request.cancelled.is_set()]

    def step(self, choice: float, moment: int) -> Reconcile | None:
        """Beat, ask for items, begin a reconcile or end one, which is returned where it succeeded."""
        self._heartbeat.fence_if_late(self.session)
        session = self.session.id
        reconcile = self._act(choice, moment)
        if self.answered or self.session.id != session:
            self.confirmed_at = moment
        return reconcile

    def _act(self, choice: float, moment: int) -> Reconcile | None:
        self.answered, self.turned, self.dispositions = False, False, []
        self._end_wait(choice)
        if self.beats_next(choice):
            self.answered = self._beat()
        elif self._settlements or choice > 0.9 or not (self._waiting or self.running):
            self._turn(moment)
        elif self._waiting and (choice < 0.5 or not self.running):
            self._begin(moment)
        else:
            return self._end(choice)
        return None

    def _beat(self) -> bool:
        """Send a heartbeat; return whether it was answered."""
        self._beat_at = self._clock.monotonic() + 1.0
        try:
            answered = self._heartbeat.beat(self.session)
        except RedisError:
            return False
        if answered:
            self._beat_at = self._clock.monotonic() + BEAT_EVERY
        return answered

    def _turn(self, moment: int) -> None:
        """Settle and claim."""
        self.turned = True
        want = SLOTS - len(self._waiting) - len(self.running)
        try:
            turn = self.session.turn(self._settlements, want)
        except RedisError:
            return  # the same settlements go with the next
        self.dispositions = [
            (settlement.request, disposition)
            for settlement, disposition in zip(self._settlements, turn.dispositions, strict=True)
        ]
        self._settlements = []
        self._waiting += [Reconcile(request, moment) for request in turn.requests]
        if want and not turn.requests:
            self._follow_up = self.session._follow_up(want, turn.wait)

    def _end_wait(self, choice: float) -> None:
        """Let Redis make the turn behind the pop; or the connection is lost, before that or after it."""
        follow_up, self._follow_up = self._follow_up, None
        if follow_up is None or choice * 10 % 1 < 0.2:
            return
        _, sha, *arguments = follow_up.command
        if choice * 10 % 1 < 0.4:
            self.line.answer_much_later(str(sha), arguments)
            return
        with suppress(RedisError):
            follow_up.reply = self.line.evaluate("", str(sha), arguments)

    def leave(self) -> None:
        """Stop as on SIGTERM."""
        self.running, self._waiting, self._settlements = [], [], []
        try:
            self.session.close()
        except RedisError:
            return

    def _begin(self, moment: int) -> None:
        reconcile = self._waiting.pop(0)
        if not reconcile.request.cancelled.is_set():
            reconcile.began = moment
            self.running.append(reconcile)

    def _end(self, choice: float) -> Reconcile | None:
        reconcile = self.running.pop(int(choice * 97) % len(self.running))
        outcome = OUTCOMES[int(choice * 89) % len(OUTCOMES)]
        self._settlements.append(Settlement(reconcile.request, outcome))
        succeeded = isinstance(outcome, Success | Done | After)
        return reconcile if succeeded and not reconcile.request.cancelled.is_set() else None
