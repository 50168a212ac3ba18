"""A handle's session in Redis: opened, turned, lost, closed.

Its turns are numbered, so that one without a reply can be asked for again. No other turn is sent before.
"""

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from distq.errors import RedisError
from distq.redisio.conversation import Meanwhile
from distq.redisio.keys import LAYOUT, bytes_of, shown, text_of
from distq.redisio.limits import TURN_LIMIT
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import ClaimRecord
from distq.redisio.sleeper import FollowUp
from distq.workqueue.claim_deadline import ClaimDeadline
from distq.workqueue.claim_ledger import ClaimLedger
from distq.workqueue.dispositions import Dispositions
from distq.workqueue.engine import Entry, TurnSettings, UnreadableItem
from distq.workqueue.interface import Release, Settlement
from distq.workqueue.lost_sessions import LostSessions
from distq.workqueue.queue_ownership import LOOK_EVERY, QueueOwnership
from distq.workqueue.rate_limiters import microseconds
from distq.workqueue.request import Request
from distq.workqueue.turns import UNKNOWN, TurnReply, decode, encode, parts
from distq.workqueue.worker import Worker

_NO_TURN = "- -"
"""The script's text for the last turn of a session that has made none."""

_LONGEST_WAIT, _LATE_BY = 4.0, 1.0
"""Seconds of the longest wait that a follow-up turn ends, and by which that may come later than planned.

A process that is frozen or cut off gets no claims by it after that. Longer waits are those of large fleets.
"""

_logger = logging.getLogger("distq.queue")


@dataclass(slots=True)
class SentTurn:
    """A turn under way, kept while its reply is missing."""

    entries: Sequence[Entry]
    n_ok: int
    others: Sequence[int]
    """The places of the entries that are no successes."""
    inputs: dict[str, Any]
    want: int
    is_own: bool
    """Whether the session itself sent the entries, so that no call fetches their dispositions."""
    follow_up: FollowUp | None = None
    """Its call if it is a follow-up turn: Redis makes that when a wait ends, unless a thread asks before."""


class TurnClient:
    """Makes the turns of one handle in Redis, and records them in its ledger.

    Only the thread that holds the turn lock may call it, apart from ``knows``. A turn that finds no session
    opens one, and calls ``on_open``. ``on_loss`` is called with the number of lost claims once Redis no
    longer has the session.
    """

    def __init__(
        self,
        store: QueueStore,
        settings: TurnSettings,
        ledger: ClaimLedger,
        dispositions: Dispositions,
        *,
        on_open: Callable[[], None],
        on_loss: Callable[[int], None],
    ) -> None:
        self.store = store
        self.worker = Worker(settings)
        self.deadline = ClaimDeadline(settings.options.claim_duration, settings.options.clock)
        self.lost = LostSessions()
        self._settings = settings
        self._clock = settings.options.clock
        self._ledger = ledger
        ledger.on_read = self.worker.count_claims
        self._dispositions = dispositions
        self._on_open = on_open
        self._on_loss = on_loss
        self.ownership = QueueOwnership(store, self._clock)
        self.session = ""
        """The session's name in Redis, empty while there is none."""
        self.op = 0
        """The number of the session's last turn; each turn has the next one."""
        self.fence = 0
        """The time of the last answered turn, µs by the server's clock."""
        self._last_turn = _NO_TURN
        """The last answered turn, by number and fence. Each turn names it, so that Redis notices a gap."""
        self._in_doubt: SentTurn | None = None
        """The turn without a reply; no other turn is sent before its reply is known."""

    # Beginning and end

    def _open(self) -> None:
        self.lost.forgive(self.store)  # Redis may have failed when the session was lost
        sent_at = self._clock.monotonic()
        session: bytes = self.store.run(
            "open",
            layout=LAYOUT,
            nonce=secrets.token_urlsafe(16),
            claim_duration=microseconds(self._settings.options.claim_duration),
            max_clock_step=self._settings.max_clock_step,
            worker=self.worker.describe(),
        )
        self.deadline.begin(sent_at)
        self._on_open()
        self.session, self.op, self._last_turn = session.decode(), 0, _NO_TURN

    def _lose(self) -> None:
        """Give up the session, which Redis no longer has; the next turn opens another."""
        session, self.session = self.session, ""
        claims = self._ledger.lose()
        self._on_loss(len(claims))
        self.lost.add(session, claims, self.store)

    def close(self, spare: Sequence[Request]) -> None:
        """Release all claims, with ``spare`` ones that the ledger has given away, and end the session."""
        why = "its session is closed"
        held = self._ledger.cancel_all(why)  # first: Redis may not answer, and the heartbeat ends, too
        try:
            self.resolve_doubt()
            held += self._ledger.take_spare()  # claims of the turn in doubt, which no caller had
            self.release([*spare, *held, *self._ledger.cancel_all(why)])
            if self.session and not self._end(self.session):
                self.lost.add(self.session, self._ledger.lose(), self.store)
        finally:
            if self._in_doubt is not None:  # Redis does not answer, and is not asked again
                self._leave_unknown(self._in_doubt)
                self._in_doubt = None

    def _end(self, session: str) -> bool:
        """End this session; return whether Redis still had it."""
        return bool(self.store.run("close", session=session, worker=self.worker.describe(ends=True)))

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Let each call to Redis take so many seconds at most."""
        store = self.store.with_timeout(seconds, repeats=True)
        try:
            with self.through(store):
                yield
        finally:
            store.connection.close()

    @contextmanager
    def through(self, store: QueueStore) -> Iterator[None]:
        """Let each call to Redis use the connection of this store."""
        usual, self.store = self.store, store
        try:
            yield
        finally:
            self.store = usual

    # Turns

    def send(self, entries: Sequence[Entry], want: int, meanwhile: Meanwhile = None) -> float:
        """Make a turn, or several if one would block the server for too long; the last one claims.

        ``meanwhile`` is called while Redis makes the first. Return how many seconds a consumer may sleep if
        it wants more.
        """
        wait, rest = 0.0, parts(entries)
        while rest:
            part, *rest = rest
            if not self.session:
                self._open()
            claims = want and not rest and self.ownership.allows(self.session, self._settings.purpose)
            reply = self._run(self._numbered(part, want if claims else 0), meanwhile)
            meanwhile = None
            wait = 0.0 if reply is None else reply.wait
            if reply is None:  # adds, and settlements of claims still held, go again: once lost, in a new one
                left = self._ledger.sendable(part, self._dispositions)
                rest = [left, *rest] if left or (want and not rest) else rest
        if not self.ownership.rivals:
            return wait
        if session := self.session:  # it holds nothing, and would keep the rival waiting
            self.session = ""
            with suppress(RedisError):  # then the session lapses
                self._end(session)
        return LOOK_EVERY

    def release(self, requests: Sequence[Request]) -> None:
        """Release requests, if there is a session; callers that settle them still get ``refused``."""
        entries = [Settlement(request, Release()) for request in requests]
        for part in parts(entries) if entries else ():
            if self.session:  # its loss ends all claims
                self._run(self._numbered(part, 0, is_own=True))

    def _numbered(self, entries: Sequence[Entry], want: int, *, is_own: bool = False) -> SentTurn:
        settlements, others = encode(entries, self._settings)
        n_ok = len(entries) - len(others)
        self.op += 1
        inputs = {  # numbers as text: to find them among the words costs more than to write them
            **self._settings.inputs(),
            "session": self.session,
            "op": str(self.op),
            "after": self._last_turn,
            "want": str(want),
            "n_ok": str(n_ok),
            "settlements": settlements,
        }
        return SentTurn(entries, n_ok, others, inputs, want, is_own)

    @property
    def awaits_follow_up(self) -> bool:
        """Return whether the claims of a follow-up turn are not known yet."""
        return self._in_doubt is not None and self._in_doubt.follow_up is not None

    def follow_up(self, want: int, seconds: float) -> FollowUp | None:
        """Return the call of a turn that claims up to ``want`` items when a wait of so many seconds ends.

        It is in doubt until its reply is known. None if the session waits for something else.
        """
        given_time = self.store.connection.server_time  # by a test; it would be that of the sending
        if given_time or seconds > _LONGEST_WAIT:
            return None
        if not self.session or self._in_doubt is not None or self.deadline.is_over():
            return None
        if not self.ownership.allows(self.session, self._settings.purpose):
            return None
        sent = self._numbered([], want)
        latest = self.fence + microseconds(seconds + _LATE_BY)
        sent.inputs["want"] = f"{want} until {latest}"
        sent.follow_up = FollowUp(self.store.call_of("turn", **sent.inputs))
        self._in_doubt = sent
        return sent.follow_up

    def _run(self, sent: SentTurn, meanwhile: Meanwhile = None) -> TurnReply | None:
        """Run the script; return None if nothing changed since the session was lost or Redis went back.

        Without a reply the turn is in doubt.
        """
        self._in_doubt = sent
        try:
            answer = self.store.run("turn", meanwhile, **sent.inputs)
        except RedisError as error:
            if not error.retryable:
                self._in_doubt = None
            raise
        return self._take(sent, answer)

    def _take(self, sent: SentTurn, answer: Any) -> TurnReply | None:
        if isinstance(answer, bytes):
            self._in_doubt = None
            if answer == b"LOST":
                self._lose()
            else:
                _logger.warning("queue %s: Redis went back, comparing the claims", self.store.name)
                self._compare(answer.decode().removeprefix("BACK "))
            return None
        reply = decode(answer, sent.n_ok, sent.others, self.deadline.period())
        self._ledger.record(sent.entries, reply, asked=sent.want > 0)
        self.worker.count(sent.entries, reply)
        if not sent.is_own:
            self._dispositions.add(sent.entries, reply.dispositions)
        self._last_turn, self.fence = f"{sent.inputs['op']} {reply.fence}", reply.fence
        self._in_doubt = None  # last: if anything before fails, the turn stays in doubt
        return reply

    def end_unreadable(self) -> None:
        """Make the unreadable items of the ledger dead, since no handler can take them.

        After an error the heartbeat releases them.
        """
        unreadable, self._ledger.unreadable = self._ledger.unreadable, []
        for part in parts([UnreadableItem(request) for request in unreadable]):
            if self._run(self._numbered(part, 0, is_own=True)) is None:
                return  # the items are unchanged: the next worker that claims them makes them dead
            for entry in part:
                _logger.error(
                    'queue %s: "%s" is dead: its key or its failure record cannot be read. '
                    'See "distq items %s --state dead".',
                    self.store.name,
                    shown(bytes_of(entry.request.key)),
                    self.store.name,
                )
            self._settings.on_unreadable(len(part))

    # What Redis has

    def resolve_doubt(self, want: int = 0) -> float:
        """Ask again for a lost reply; its dispositions are kept for repeated calls.

        A follow-up turn that Redis has not made yet claims for this caller, up to ``want`` items. Return how
        many seconds a consumer may sleep after such a turn; 0 if it may find more.
        """
        doubted = self._in_doubt
        if doubted is None:
            return 0.0
        follow_up = doubted.follow_up
        if follow_up is not None and follow_up.reply is not None:
            reply = self._take(doubted, follow_up.reply)
        else:
            if follow_up is not None:  # from now on it is this caller's, and has no latest time
                doubted.inputs["want"] = str(0 if self.deadline.is_over() else min(want, TURN_LIMIT))
            reply = self._run(doubted)
        if reply is None and not self.session:
            self._leave_unknown(doubted)
        return reply.wait if reply is not None and follow_up is not None else 0.0

    def _leave_unknown(self, sent: SentTurn) -> None:
        """Keep ``unknown`` for the settlements; an add is repeated instead."""
        if not sent.is_own:
            settlements = [entry for entry in sent.entries if isinstance(entry, Settlement)]
            self._dispositions.add(settlements, [UNKNOWN] * len(settlements))

    def knows(self, turn: str) -> bool:
        """Return whether the session's last turn in Redis, by number and fence, is the last one here.

        The turn in doubt counts as well.
        """
        doubted = self._in_doubt
        return turn == self._last_turn or (
            doubted is not None and turn.partition(" ")[0] == doubted.inputs["op"]
        )

    def recount(self) -> None:
        """Compare the claims with the server's: cancel those gone there, release those unknown here."""
        self.resolve_doubt()
        self._ledger.take_spare()  # the server has them and no caller, so they are released below
        self._compare(self._last_turn)

    def _compare(self, last_turn: str) -> None:
        """Compare the claims, then go on from this turn, the last one that Redis has.

        If Redis does not show its claims, the next turn tries again.
        """
        number = self.session.partition("-")[0]
        (items,) = self.store.read(("ZRANGEBYSCORE", "processing", number, number))
        (claims,) = self.store.read(("HMGET", "claims", *items)) if items else ((),)
        fences = {
            text_of(item): ClaimRecord.parse(text or b"").fence
            for item, text in zip(items, claims, strict=True)
        }
        unknown = self._ledger.compare(fences)
        self._last_turn = last_turn
        self.release(unknown)
