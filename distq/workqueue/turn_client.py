"""The client of the turn script: turns are numbered, so that one without a reply can be asked for again."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distq.errors import RedisError
from distq.redisio.keys import bytes_of, shown
from distq.redisio.limits import COSTLY_LIMIT
from distq.redisio.queue_store import QueueStore
from distq.workqueue.claim_ledger import ClaimLedger
from distq.workqueue.engine import Entry, RateLimitedAdd, SetAside, TurnSettings
from distq.workqueue.interface import Request
from distq.workqueue.turns import Encoded, TurnReply, decode, encode, parts
from distq.workqueue.worker import Worker

_logger = logging.getLogger("distq.queue")


@dataclass(frozen=True)
class SentTurn:
    """A turn under way, kept while its reply is missing."""

    entries: Sequence[Entry]
    encoded: Encoded
    inputs: dict[str, str | int]


class TurnClient:
    """Makes the turns of one session, one at a time, and records them in its ledger.

    ``open_session`` returns the name of a new session; ``on_lost`` is called once Redis has it no longer.
    """

    def __init__(
        self,
        store: QueueStore,
        settings: TurnSettings,
        ledger: ClaimLedger,
        worker: Worker,
        *,
        max_clock_step: int,
        open_session: Callable[[], str],
        on_lost: Callable[[], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._ledger = ledger
        self._worker = worker
        self._max_clock_step = max_clock_step
        self._open_session = open_session
        self._on_lost = on_lost
        self.session = ""
        self.op = 0
        self._in_doubt: SentTurn | None = None

    def send(self, entries: Sequence[Entry], want: int) -> float:
        """Make a turn, or several where one would keep the server for too long; the last one claims.

        Return how many seconds a consumer that wants more may sleep.
        """
        *earlier, last = parts(entries)
        for places in earlier:
            self._send_part([entries[place] for place in places], 0)
        return self._send_part([entries[place] for place in last], want)

    def resolve_doubt(self) -> None:
        """Ask again for a reply that was lost; its results are there for those who come back for them."""
        if self._in_doubt is not None:
            self._run(self._in_doubt)

    def _send_part(self, entries: Sequence[Entry], want: int) -> float:
        if not self.session:
            self.session, self.op = self._open_session(), 0
        reply = self._run(self._numbered(entries, want))
        if reply is not None:
            return reply.wait
        # the claims ended with the session; what needs none goes on in the next one
        added = [entry for entry in entries if isinstance(entry, RateLimitedAdd)]
        return self._send_part(added, want) if want or added else 0.0

    def _numbered(self, entries: Sequence[Entry], want: int) -> SentTurn:
        encoded = encode(entries, self._settings)
        self.op += 1
        inputs = self._settings.inputs()
        inputs |= {
            "session": self.session,
            "op": self.op,
            "want": want,
            "max_clock_step": self._max_clock_step,
        }
        return SentTurn(entries, encoded, inputs)

    def _run(self, sent: SentTurn) -> TurnReply | None:
        """Run the script; return None where the session was lost. Without a reply the turn is in doubt."""
        self._in_doubt = sent
        try:
            encoded = sent.encoded
            answer = self._store.run(
                "turn", n_ok=encoded.n_ok, settlements=encoded.settlements, **sent.inputs
            )
        except RedisError as error:
            if not error.retryable:
                self._in_doubt = None
            raise
        if answer == b"LOST":
            self._in_doubt = None
            self.session = ""
            self._on_lost()
            return None
        reply = decode(answer, encoded)
        self._ledger.record(sent.entries, reply, self._worker, asked=bool(sent.inputs["want"]))
        self._in_doubt = None  # not before: an interrupt until here leaves the turn in doubt
        self._set_aside(reply.unreadable)
        return reply

    def _set_aside(self, requests: Sequence[Request]) -> None:
        """End claims that nobody can be given; where that fails the heartbeat releases them."""
        for start in range(0, len(requests), COSTLY_LIMIT):
            entries = [SetAside(request) for request in requests[start : start + COSTLY_LIMIT]]
            self._run(self._numbered(entries, 0))
            for entry in entries:
                _logger.error(
                    'queue %s: "%s" is dead: its key or its failure record cannot be read. '
                    'See "distq items %s --state dead".',
                    self._store.name,
                    shown(bytes_of(entry.request.key)),
                    self._store.name,
                )
            self._settings.on_set_aside(len(entries))
