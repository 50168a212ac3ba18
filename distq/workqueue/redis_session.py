"""The life of one queue handle in one process: its claims, and the turns by which they come and go.

Turns of a session go one at a time, so that a lost reply can be asked for again; what
threads ask meanwhile travels together in the next one. All claims live and die with the
session: when it is lost, each request is cancelled and nothing of it is settled.
"""

import atexit
import contextlib
import logging
import os
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import DistqError, RedisError, RedisUnavailable
from distq.redisio.keys import LAYOUT
from distq.redisio.limits import TURN_LIMIT
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import ClaimRecord
from distq.workqueue.call_combiner import CallCombiner, PendingCall
from distq.workqueue.heartbeat import Heartbeat
from distq.workqueue.interface import Disposition, Release, Request, Settlement, Turn
from distq.workqueue.rate_limiters import microseconds
from distq.workqueue.turns import (
    REFUSED,
    Backoff,
    Encoded,
    Entry,
    TurnReply,
    TurnSettings,
    decode,
    encode,
    parts,
)
from distq.workqueue.wait_coordinator import WaitCoordinator
from distq.workqueue.worker import Worker

_logger = logging.getLogger("distq.queue")

_ALONE_WAIT = 1.0
"""Seconds that a handle waits at most which holds a suspect, or empties itself to claim one."""


@dataclass(frozen=True)
class _Sent:
    """A turn under way, kept while its reply is missing, so that the same one is asked for again."""

    op: int
    want: int
    entries: list[Entry]
    encoded: Encoded
    policy: TurnSettings
    before: Mapping[tuple[str, int], Disposition]
    """What parts of the same turn, which were answered, made of their claims."""


class RedisSession:
    """All that one process holds of one queue; opened by its first turn, safe for threads and forks."""

    def __init__(
        self,
        store: QueueStore,
        *,
        policy: Callable[[], TurnSettings],
        claim_duration: float,
        on_cancel: Callable[[Request], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.store = store
        self.claim_duration = claim_duration
        self.clock = clock
        self._policy = policy
        self._on_cancel = on_cancel
        self._ended = False
        self._begin()
        _sessions.add(self)

    def _begin(self) -> None:
        """Start from nothing; in the child of a fork, too, since what the parent held is the parent's."""
        self._lock = threading.Lock()
        self._asks = CallCombiner()
        self._waiting = WaitCoordinator(self.store)
        self._forget()

    def _forget(self) -> None:
        self.id = ""
        self.worker = Worker()
        self.turns = 0
        """Counts the begins and ends of turns: odd while one is under way."""
        self._held: dict[str, Request] = {}
        self._spare: deque[Request] = deque()
        self._late: dict[tuple[str, int], Disposition] = {}
        self._unanswered: _Sent | None = None
        self._op = 0
        self._holds_suspect = False
        self._empties = False
        self._promoted = 0
        self._heartbeat: Heartbeat | None = None

    # What a queue asks

    def turn(self, entries: Sequence[Entry], want: int) -> Turn:
        """Settle and claim, together with what other threads ask; see ``TurnQueue.turn``."""
        ask = PendingCall(entries, want)
        self._asks.add(ask)
        with self._lock:
            while not ask.answered:
                self._answer_asks()
        if ask.error is not None:
            raise ask.error
        if self._ended:
            self.close_when_idle()
        return Turn(ask.requests, ask.dispositions, ask.wait, ask.promoted)

    def wait(self, seconds: float, at_most: float | None = None) -> None:
        """Sleep until there may be work, at most ``at_most`` seconds.

        One thread sleeps on Redis for all, for ``seconds`` at most; the others until it is their turn to.
        """
        self._waiting.wait(seconds, at_most, for_work=not self._rests)

    def interrupt(self) -> None:
        """End a running or the next wait at once."""
        self._waiting.interrupt()

    def end(self) -> None:
        """Claim nothing from now on, and end all waits."""
        self._ended = True
        self._waiting.end()

    def held(self) -> list[Request]:
        """Return the requests that this session holds."""
        return list(self._held.values())

    def is_kept_alive(self) -> bool:
        """Return whether the thread that keeps the claims alive runs, if one is needed."""
        return self._heartbeat is None or self._heartbeat.is_alive()

    def close(self) -> None:
        """Release what is held and end the session; the next turn would open another."""
        with self._lock:
            self._close()

    def close_when_idle(self) -> None:
        """Close the session unless somebody here holds a claim.

        Once it has ended each turn looks itself, so nobody waits here for one that is under way: it may be
        this thread's own, which a signal interrupted.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            spare = set(map(id, self._spare))  # nobody comes for them
            if all(id(request) in spare for request in self._held.values()):
                with contextlib.suppress(RedisError):  # then it lapses, and holds nothing
                    self._close()
        finally:
            self._lock.release()

    def _close(self) -> None:
        held = self.held()
        self.cancel_held("its session is closed")
        try:
            self._release(held)
            if self.id:
                self.store.run("close", session=self.id)
        finally:  # without an answer it lapses
            if self._heartbeat is not None:
                self._heartbeat.stop()
            self._waiting.close()
            self._forget()

    # What its heartbeat asks

    def cancel_held(self, why: str) -> None:
        """Cancel all requests, at once: from here on nothing of them is settled."""
        held, self._held = self._held, {}
        for request in held.values():
            self._cancel(request, why)
        self.interrupt()

    def recount(self) -> None:
        """Compare our claims with the server's: cancel what is gone there, release what is unknown here."""
        with self._lock:
            if self._unanswered is not None:
                self._ask_again(self._unanswered)
            claims = self._claims()
            for key, request in list(self._held.items()):
                if claims.get(key) != request.fence:
                    del self._held[key]
                    self._cancel(request, "its claim is gone")
            for request in self._spare:  # nobody came back for them
                self._held.pop(request.key, None)
            self._spare.clear()
            self._release(
                [Request(key, fence=fence) for key, fence in claims.items() if key not in self._held]
            )

    def _claims(self) -> dict[str, int]:
        number = self.id.partition("-")[0]
        (items,) = self.store.read(("ZRANGEBYSCORE", "processing", number, number))
        (claims,) = self.store.read(("HMGET", "claims", *items)) if items else ((),)
        return {
            item.decode(): ClaimRecord.parse(text).fence
            for item, text in zip(items, claims, strict=True)
            if text
        }

    # One turn for all who ask

    def _answer_asks(self) -> None:
        asks = self._asks.take()
        self.turns += 1
        try:
            if self._unanswered is not None:
                self._ask_again(self._unanswered)
            self._serve(asks)
        except BaseException as error:
            for ask in asks:
                ask.error = (
                    error if isinstance(error, RedisError) else RedisUnavailable("interrupted. Try again.")
                )
            if not isinstance(error, RedisError):
                raise
        finally:
            self.turns += 1
            for ask in asks:
                ask.answered = True

    def _serve(self, asks: Sequence[PendingCall]) -> None:
        ours = [entry for ask in asks for entry in ask.entries if self._is_held(entry)]
        want = sum(ask.want for ask in asks)
        settled = {entry.request.key for entry in ours if isinstance(entry, Settlement)}
        if self._ended or (self._holds_suspect and not self._held.keys() <= settled):
            want = 0
        answer, told = self._send_in_parts(ours, max(0, want - len(self._spare)))
        self._spare.extend(answer.requests)
        self._spare = deque(request for request in self._spare if not request.cancelled.is_set())
        dispositions = iter(told)
        sent = set(map(id, ours))
        for ask in asks:
            ask.dispositions = [
                next(dispositions) if id(entry) in sent else self._late_disposition(entry)
                for entry in ask.entries
            ]
            ask.requests = [self._spare.popleft() for _ in range(min(ask.want, len(self._spare)))]
            ask.wait = _ALONE_WAIT if self._rests else answer.wait
            ask.promoted, self._promoted = self._promoted, 0

    @property
    def _rests(self) -> bool:
        """Return whether nothing is claimed until nothing is held: beside a suspect, or to claim one."""
        return (self._holds_suspect or self._empties) and bool(self._held)  # it may be cancelled meanwhile

    def _is_held(self, entry: Entry) -> bool:
        if not isinstance(entry, Settlement):
            return True
        held = self._held.get(entry.request.key)
        return held is not None and held.fence == entry.request.fence

    def _late_disposition(self, entry: Entry) -> Disposition:
        """Return what a turn whose reply came late made of a claim; one that we do not hold is refused."""
        if not isinstance(entry, Settlement):
            return REFUSED
        return self._late.pop((entry.request.key, entry.request.fence), REFUSED)

    def _send_in_parts(self, entries: list[Entry], want: int) -> tuple[TurnReply, list[Disposition]]:
        """Send one turn, or several where one would keep the server for too long; the last one claims."""
        dispositions = [REFUSED] * len(entries)
        before: dict[tuple[str, int], Disposition] = {}
        *first, last = parts(entries)
        for places in (*first, last):
            part = [entries[place] for place in places]
            answer = self._send(part, want if places is last else 0, dict(before))
            before.update(_by_claim(part, answer.dispositions))
            for place, disposition in zip(places, answer.dispositions, strict=True):
                dispositions[place] = disposition
        return answer, dispositions

    # One turn of the script

    def _send(
        self, entries: list[Entry], want: int, before: Mapping[tuple[str, int], Disposition]
    ) -> TurnReply:
        back_offs: list[Entry] = [entry for entry in entries if isinstance(entry, Backoff)]
        if not self.id and self._ended and not back_offs:
            return TurnReply([], [REFUSED] * len(entries), 0.0, alone=False)
        if not self.id:
            self._open()
        self._op += 1
        policy = self._policy()
        answer = self._ask_redis(_Sent(self._op, want, entries, encode(entries, policy), policy, before))
        if answer is not None:
            return answer
        if not want and not back_offs:
            return TurnReply([], [REFUSED] * len(entries), 0.0, alone=False)
        anew = self._send(
            back_offs, want, before
        )  # the claims ended with the session, what needs none goes on
        told = dict(zip(map(id, back_offs), anew.dispositions, strict=True))
        dispositions = [told.get(id(entry), REFUSED) for entry in entries]
        return TurnReply(anew.requests, dispositions, anew.wait, anew.alone)

    def _ask_redis(self, sent: _Sent) -> TurnReply | None:
        """Run the script; return None where the session was lost. Without a reply the turn is kept."""
        self._unanswered = sent
        try:
            reply = self.store.run(
                "turn",
                session=self.id,
                op=sent.op,
                want=sent.want,
                max_clock_step=self.max_clock_step,
                n_ok=sent.encoded.n_ok,
                settlements=sent.encoded.settlements,
                **sent.policy.inputs(),
            )
        except RedisError as error:
            if not error.retryable:
                self._unanswered = None
                self._late.update(sent.before)
            raise
        self._unanswered = None
        if reply == b"LOST":
            self._lose()
            return None
        answer = decode(reply, sent.encoded)
        self._note(sent, answer)
        return answer

    def _ask_again(self, sent: _Sent) -> None:
        """PendingCall for a reply that was lost; keep what it answers for those who come back for it."""
        answer = self._ask_redis(sent)
        if answer is None:
            self._late.update(sent.before)
            return
        self._late = {**sent.before, **_by_claim(sent.entries, answer.dispositions)}
        self._spare.extend(answer.requests)

    def _note(self, sent: _Sent, answer: TurnReply) -> None:
        rested = self._rests
        for entry, disposition in zip(sent.entries, answer.dispositions, strict=True):
            if isinstance(entry, Settlement):
                self._held.pop(entry.request.key, None)
                self.worker.count(entry.outcome, disposition)
        claimed_alone = answer.alone and bool(answer.requests)
        self._holds_suspect = claimed_alone or (self._holds_suspect and bool(self._held))
        self._held.update((request.key, request) for request in answer.requests)
        self._promoted += answer.promoted
        if sent.want:  # each reply to who asks says anew whether to go on claiming
            self._empties = answer.alone and not claimed_alone
        if rested and not self._rests:
            self.interrupt()

    def _release(self, requests: Sequence[Request]) -> None:
        for start in range(0, len(requests), TURN_LIMIT):
            if self.id:
                self._send(
                    [Settlement(request, Release()) for request in requests[start : start + TURN_LIMIT]],
                    0,
                    {},
                )

    # Beginning and end

    @property
    def max_clock_step(self) -> int:
        """Return how far one call may advance the claim clock, µs."""
        return microseconds(min(self.claim_duration / 3, 10.0))

    def _open(self) -> None:
        self.id = self.store.run(
            "open",
            layout=LAYOUT,
            nonce=secrets.token_urlsafe(16),
            claim_duration=microseconds(self.claim_duration),
            max_clock_step=self.max_clock_step,
            worker=self.worker.describe(self.clock),
        ).decode()
        self._op = 0
        if self._heartbeat is None:
            self._heartbeat = Heartbeat(self)
        self._heartbeat.begin(self.clock)

    def _lose(self) -> None:
        """Give up a session that the server no longer has; the next turn opens another."""
        _logger.warning("queue %s: session lost, %d claims cancelled", self.store.name, len(self._held))
        self.id = ""
        self._late.clear()
        self._spare.clear()
        self._holds_suspect = self._empties = False
        self.cancel_held("its session was lost")

    def _cancel(self, request: Request, why: str) -> None:
        _logger.warning("queue %s: %s cancelled: %s", self.store.name, request.key, why)
        request.cancelled.set()
        self._on_cancel(request)


def _by_claim(
    entries: Sequence[Entry], dispositions: Sequence[Disposition]
) -> dict[tuple[str, int], Disposition]:
    return {
        (entry.request.key, entry.request.fence): disposition
        for entry, disposition in zip(entries, dispositions, strict=True)
        if isinstance(entry, Settlement)
    }


_sessions: "weakref.WeakSet[RedisSession]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for session in list(_sessions):
        session._begin()  # noqa: SLF001  # this module's own


def _close_all() -> None:
    """Give back what a process holds at its normal end, so that nobody has to wait for it to lapse."""
    for session in list(_sessions):
        session.end()  # its threads may still run
        if session.id:
            with contextlib.suppress(DistqError):
                session.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_close_all)
