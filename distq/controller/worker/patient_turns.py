"""A dispatcher's turns: an outage of Redis loses no settlement, and failed reconciles are logged."""

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from distq.controller.worker.reconcile_log import log_reconcile
from distq.controller.worker.reconcile_recorder import ReconcileRecorder
from distq.controller.worker.worker_spans import WorkerSpans
from distq.errors import LayoutTooNew, RedisError
from distq.wording import duration
from distq.workqueue.engine import OnClaims
from distq.workqueue.handle import QueueHandle
from distq.workqueue.interface import Settlement, Success, Turn, all_ended
from distq.workqueue.request import Request

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between turns, before jitter, while Redis gives no useful answer."""

_logger = logging.getLogger("distq")


class PatientTurns:
    """Makes the turns of one queue, until a deadline once it is ``stopping``.

    ``on_claims`` receives the claims that a turn left ``spare``, while Redis makes the next one.
    ``on_settled`` receives each settlement that is no success.
    """

    def __init__(
        self,
        name: str,
        queue: QueueHandle,
        *,
        stopping: threading.Event,
        recorder: ReconcileRecorder | None,
        spans: WorkerSpans | None = None,
        on_claims: OnClaims,
        on_settled: Callable[[str, Settlement], None],
    ) -> None:
        self._name = name
        self._queue = queue
        self._stopping = stopping
        self._recorder = recorder
        self._spans = spans
        self._on_claims = on_claims
        self._on_settled = on_settled
        self.deadline = math.inf
        """The monotonic time after which an outage raises RedisError."""
        self.settling = 0
        """How many settlements are on their way."""
        self.spare = 0
        """How many claims the last turn left to the next one."""
        self.tried_at = -math.inf
        """The monotonic time at which Redis was asked last: an outage is no stall."""

    def make(self, settlements: Sequence[Settlement], want: int) -> Turn:
        """Settle claims and take up to ``want`` new ones; see ``QueueHandle.turn``.

        A turn that wants none hands out none. Raises RedisError once the deadline is over, LayoutTooNew at
        once.
        """
        self.settling = len(settlements)
        most = want + self.spare if want else 0
        wait_out = partial(self._wait_out, settlements, most, hands_out=want > 0)
        turn = wait_out() if self._spans is None else self._spans.turn(wait_out, settlements, want)
        self.settling = 0
        if not settlements:
            return turn
        verbose = _logger.isEnabledFor(logging.DEBUG)
        if not verbose and all_ended(turn.dispositions):
            return turn
        for settlement, disposition in zip(settlements, turn.dispositions, strict=True):
            if verbose or not isinstance(settlement.outcome, Success):
                log_reconcile(self._name, self._queue, settlement, disposition)
                self._on_settled(self._name, settlement)
        return turn

    def take_spare(self) -> Sequence[Request]:
        """Take the claims that the last turn left; while they are held that needs no turn."""
        return self._wait_out([], self.spare, hands_out=False).requests if self.spare else ()

    def _wait_out(self, settlements: Sequence[Settlement], most: int, *, hands_out: bool) -> Turn:
        """Make a turn until Redis answers; its worker gets ``most`` claims by it, spare ones included."""
        away_since, pause = None, FIRST_PAUSE

        def hand_out(requests: Sequence[Request]) -> None:
            nonlocal most
            # at once: the turn may still fail, and be made again. With the claims of a turn in doubt these
            # are more than the spare ones
            most, self.spare = max(0, most - len(requests)), 0
            self._on_claims(requests)

        while True:
            self.tried_at = time.monotonic()
            try:
                turn = self._queue.turn(settlements, most, hand_out if hands_out else None)
                break
            except LayoutTooNew:
                raise
            except RedisError as error:
                if away_since is None:
                    away_since = time.monotonic()
                    _logger.warning("%s: %s Going on once it answers.", self._name, error)
                    if self._recorder is not None:
                        self._recorder.outage()
                if self._stopping.is_set() and not settlements:  # no settlement is lost
                    return Turn([], [], 0.0)
                if (left := self.deadline - time.monotonic()) <= 0:
                    raise
            self._pause(min(pause * random.uniform(0.5, 1.0), left))
            pause = min(2 * pause, LONGEST_PAUSE)
        if away_since is not None:
            away = duration(time.monotonic() - away_since)
            _logger.warning("%s: Redis answers again after %s", self._name, away)
        self.spare = turn.spare
        return turn

    def _pause(self, seconds: float) -> None:
        """Sleep; a shutdown that begins meanwhile ends it."""
        if self._stopping.is_set():
            time.sleep(seconds)  # a wait for the event would end at once
        else:
            self._stopping.wait(seconds)
