"""The client of the turn script: turns are numbered, so that one without a reply can be asked for again."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from distq.errors import RedisError
from distq.redisio.keys import bytes_of, shown
from distq.redisio.limits import COSTLY_LIMIT
from distq.redisio.queue_store import QueueStore
from distq.workqueue.claim_deadline import ClaimDeadline
from distq.workqueue.claim_ledger import ClaimLedger
from distq.workqueue.engine import Entry, TurnSettings, UnreadableItem
from distq.workqueue.interface import Release, Request, Settlement
from distq.workqueue.turns import Encoded, TurnReply, decode, encode, parts
from distq.workqueue.worker import Worker

_NO_TURN = "- -"
"""The script's text for the last turn of a session that has made none."""

_logger = logging.getLogger("distq.queue")


@dataclass(frozen=True)
class SentTurn:
    """A turn under way, kept while its reply is missing."""

    entries: Sequence[Entry]
    encoded: Encoded
    inputs: dict[str, str | int]


class TurnClient:
    """Makes the turns of one session, one at a time, and records them in its ledger.

    ``open_session`` returns the name of a new session, ``describe`` the description of its process, and
    ``may_claim`` whether the open session may claim. ``on_lost`` is called with the session's name once Redis
    no longer has it. ``on_went_back`` is called once Redis shows an older turn than the last: it compares the
    claims and returns those unknown here, to be released.
    """

    def __init__(
        self,
        store: QueueStore,
        settings: TurnSettings,
        ledger: ClaimLedger,
        worker: Worker,
        deadline: ClaimDeadline,
        *,
        max_clock_step: int,
        open_session: Callable[[], str],
        describe: Callable[[], str],
        may_claim: Callable[[], bool],
        on_lost: Callable[[str], None],
        on_went_back: Callable[[], Sequence[Request]],
    ) -> None:
        self.store = store
        self._settings = settings
        self._ledger = ledger
        self._worker = worker
        self._deadline = deadline
        self._max_clock_step = max_clock_step
        self._open_session = open_session
        self._describe = describe
        self._may_claim = may_claim
        self._on_lost = on_lost
        self._on_went_back = on_went_back
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

    def send(self, entries: Sequence[Entry], want: int) -> float:
        """Make a turn, or several if one would block the server for too long; the last one claims.

        Return how many seconds a consumer that wants more may sleep.
        """
        *earlier, last = parts(entries)
        for part in earlier:
            self._send_part(part, 0)
        return self._send_part(last, want)

    def resolve_doubt(self) -> None:
        """Ask again for a lost reply; its results are kept for repeated calls."""
        doubted = self._in_doubt
        if doubted is not None and self._run(doubted) is None and not self.session:
            self._ledger.doubt(_settlements(doubted.entries))

    def give_up(self) -> None:
        """End without Redis: the result of a turn in doubt stays unknown."""
        if self._in_doubt is not None:
            self._ledger.doubt(_settlements(self._in_doubt.entries))
            self._in_doubt = None

    def knows(self, turn: str) -> bool:
        """Return whether the session's last turn in Redis, by number and fence, is the last one here.

        The turn in doubt counts as well.
        """
        doubted = self._in_doubt
        return turn == self._last_turn or (
            doubted is not None and turn.partition(" ")[0] == str(doubted.inputs["op"])
        )

    def release(self, requests: Sequence[Request]) -> None:
        """Release requests, if there is a session; callers that settle them still get ``refused``."""
        if requests and self.session:
            copies = [Request(request.key, fence=request.fence) for request in requests]
            entries = [Settlement(copy, Release()) for copy in copies]
            self.send(entries, 0)
            self._ledger.take_results(entries)

    def leave(self) -> None:
        """End the session, which holds nothing; the next turn opens another."""
        session, self.session = self.session, ""
        if session:
            with suppress(RedisError):  # then the session lapses
                self.store.run("close", session=session, worker=self._describe())

    def _send_part(self, entries: Sequence[Entry], want: int) -> float:
        if not self.session:
            self.session, self.op, self._last_turn = self._open_session(), 0, _NO_TURN
        reply = self._run(self._numbered(entries, want if want and self._may_claim() else 0))
        if reply is not None:
            return reply.wait
        # send the adds, and settlements of claims still held, again: in a new session if this one was lost
        left = self._ledger.sendable(entries)
        return self._send_part(left, want) if want or left else 0.0

    def _numbered(self, entries: Sequence[Entry], want: int) -> SentTurn:
        encoded = encode(entries, self._settings)
        self.op += 1
        inputs = self._settings.inputs()
        inputs |= {
            "session": self.session,
            "op": self.op,
            "after": self._last_turn,
            "want": want,
            "max_clock_step": self._max_clock_step,
        }
        return SentTurn(entries, encoded, inputs)

    def _run(self, sent: SentTurn) -> TurnReply | None:
        """Run the script; return None if nothing changed since the session was lost or Redis went back.

        Without a reply the turn is in doubt.
        """
        self._in_doubt = sent
        try:
            encoded = sent.encoded
            answer = self.store.run("turn", n_ok=encoded.n_ok, settlements=encoded.settlements, **sent.inputs)
        except RedisError as error:
            if not error.retryable:
                self._in_doubt = None
            raise
        if answer == b"LOST":
            self._in_doubt = None
            lost, self.session = self.session, ""
            self._on_lost(lost)
            return None
        if isinstance(answer, bytes):
            self._in_doubt = None
            self._go_back(answer.decode().removeprefix("BACK "))
            return None
        reply = decode(answer, encoded, self._deadline.period())
        self._ledger.record(sent.entries, reply, self._worker, asked=bool(sent.inputs["want"]))
        self._last_turn, self.fence = f"{sent.inputs['op']} {reply.fence}", reply.fence
        self._in_doubt = None  # last: if anything before fails, the turn stays in doubt
        self._end_unreadable(reply.unreadable)
        return reply

    def _go_back(self, turn: str) -> None:
        """Go on from the older turn that Redis has; after an error the next turn tries again."""
        unknown = self._on_went_back()
        self._last_turn = turn
        self.release(unknown)

    def _end_unreadable(self, requests: Sequence[Request]) -> None:
        """Make unreadable items dead, since no handler can take them.

        After an error the heartbeat releases them.
        """
        for start in range(0, len(requests), COSTLY_LIMIT):
            entries = [UnreadableItem(request) for request in requests[start : start + COSTLY_LIMIT]]
            if self._run(self._numbered(entries, 0)) is None:
                return  # the items are unchanged: the next worker that claims them makes them dead
            for entry in entries:
                _logger.error(
                    'queue %s: "%s" is dead: its key or its failure record cannot be read. '
                    'See "distq items %s --state dead".',
                    self.store.name,
                    shown(bytes_of(entry.request.key)),
                    self.store.name,
                )
            self._settings.on_unreadable(len(entries))


def _settlements(entries: Sequence[Entry]) -> list[Entry]:
    """Return the settlements; the caller of ``add_rate_limited`` repeats its call instead."""
    return [entry for entry in entries if isinstance(entry, Settlement)]
