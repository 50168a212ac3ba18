"""What a session holds: requests that were handed out, and claims that no caller has yet."""

import logging
from collections.abc import Callable, Mapping, Sequence

from distq.redisio.limits import TURN_LIMIT
from distq.workqueue.engine import Entry, RateLimitedAdd, SetAside
from distq.workqueue.interface import REFUSED, Disposition, Request, Settlement, Turn
from distq.workqueue.turns import UNKNOWN, TurnReply
from distq.workqueue.worker import Worker

_logger = logging.getLogger("distq.queue")

_RESULTS_LIMIT = 4 * TURN_LIMIT
"""Results that are kept; the oldest go."""
_NO_RESULT = None, REFUSED


class ClaimLedger:
    """The claims of one session, by key.

    Changed between turns or by the thread that makes one; only ``cancel_all`` may be called at any time.
    """

    def __init__(self, name: str, *, on_cancel: Callable[[Request], None], on_drained: Callable[[], None]):
        self._name = name
        self._on_cancel = on_cancel
        self._on_drained = on_drained
        self.held: dict[str, Request] = {}
        self._spare: dict[str, Request] = {}
        """Of those held: claims that no caller has. The next one that wants any gets them.

        Also without a turn, from any thread: so whoever needs one takes it out by ``pop``, and has it alone.
        """
        self._answered: list[tuple[Sequence[Entry], Sequence[Disposition]]] = []
        """What turns did with entries, until the calls fetch it that asked; most do at once."""
        self.results: dict[int, tuple[Entry | None, Disposition]] = {}
        """The same by entry, of turns whose calls ended with an error: they may ask again."""
        self._cancelled: dict[str, int] = {}
        """Fences of what was cancelled here, and what the server may have still, by key."""
        self._promoted = self._revived = 0
        self._holds_suspect = False
        self._empties = False

    # A turn comes and goes

    def sendable(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return what a turn may carry: the first entry of each claim that is held, and adds not done yet.

        Where that is all, it is the same object.
        """
        held, sent, settled = self.held, list[Entry](), set[str]()
        for entry in entries:
            if isinstance(entry, Settlement):
                request = entry.request
                key, claim = request.key, held.get(request.key)
                if claim is None or claim.fence != request.fence or key in settled:
                    continue
                settled.add(key)
            elif self._answered or self.results:
                self._sort_answers()
                if _asked_by(entry) in self.results:
                    continue
            sent.append(entry)
        return entries if len(sent) == len(entries) else sent

    def record(self, entries: Sequence[Entry], reply: TurnReply, worker: Worker, *, asked: bool) -> None:
        """Note what a turn did, which ``asked`` for claims or not; what it claimed is spare until taken."""
        was_draining = self.draining
        held = self.held
        for entry in entries:
            if isinstance(entry, Settlement):
                held.pop(entry.request.key, None)
        if self._cancelled:
            self._forget_cancelled(entries)
        worker.count(entries, reply)
        if entries and not isinstance(entries[0], SetAside):  # which no call sent
            self._answered.append((entries, reply.dispositions))
        took_suspect = reply.alone and bool(reply.requests)
        self._holds_suspect = took_suspect or (self._holds_suspect and bool(self.held))
        if asked:  # each such reply says anew whether this session empties itself for a suspect
            self._empties = reply.alone and not took_suspect
        claimed = {request.key: request for request in reply.requests}
        self.held.update(claimed)
        self._spare.update(claimed)
        if self.held is not held:
            self._leave_unheld(claimed)
        self._promoted += reply.promoted
        self._revived += reply.revived
        if was_draining and not self.draining:
            self._on_drained()

    def _forget_cancelled(self, entries: Sequence[Entry]) -> None:
        """Note that the server has the claims no longer that these end, or refused them."""
        for entry in entries:
            if not isinstance(entry, RateLimitedAdd) and (
                self._cancelled.get(entry.request.key) == entry.request.fence
            ):
                del self._cancelled[entry.request.key]

    def _leave_unheld(self, claimed: Mapping[str, Request]) -> None:
        """Hand out none of these that ``cancel_all``, in another thread, cancelled while they were noted."""
        for key, request in claimed.items():
            if self.held.get(key) is not request:
                self._spare.pop(key, None)

    def doubt(self, entries: Sequence[Entry]) -> None:
        """Note that nobody will ever know what became of these."""
        self._answered.append((entries, [UNKNOWN] * len(entries)))

    def take_results(self, entries: Sequence[Entry]) -> Sequence[Disposition]:
        """Return what became of each entry, once; refused where nothing is known of it."""
        if not entries:
            return ()
        if len(self._answered) == 1 and self._answered[0][0] is entries:
            return self._answered.pop()[1]
        self._sort_answers()
        return [self.results.pop(_asked_by(entry), _NO_RESULT)[1] for entry in entries]

    def all_results(self) -> dict[int, tuple[Entry | None, Disposition]]:
        """Return what became of entries whose calls have not fetched it."""
        self._sort_answers()
        return self.results

    def _sort_answers(self) -> None:
        answered, self._answered = self._answered, []
        for entries, dispositions in answered:
            for entry, disposition in zip(entries, dispositions, strict=True):
                if disposition.kind != "refused":
                    self.results[_asked_by(entry)] = entry, disposition
        if len(self.results) > _RESULTS_LIMIT:
            for oldest in list(self.results)[:-_RESULTS_LIMIT]:
                del self.results[oldest]

    def n_spare(self) -> int:
        """Return how many of those held no caller has."""
        return len(self._spare)

    def spare_fences(self) -> set[int]:
        """Return the fences of the spare claims."""
        return {request.fence for request in list(self._spare.values())}

    def leave_cancelled(self) -> None:
        """Hand out no claim whose deadline was missed: the heartbeat is about to cancel all that is held."""
        for key, request in list(self._spare.items()):
            if request.cancelled.is_set():
                self._spare.pop(key, None)

    def take(self, want: int) -> list[Request]:
        """Hand out up to so many of the spare requests, in their order."""
        spare = self._spare
        taken = [spare.pop(key, None) for key in list(spare)[:want]]
        return [request for request in taken if request is not None]

    def take_back(self, entries: Sequence[Entry], turn: Turn) -> None:
        """Note that the caller has gone for which this turn was."""
        if entries:
            self._answered.append((entries, turn.dispositions))
        self._spare.update({each.key: each for each in turn.requests if self.held.get(each.key) is each})
        self._promoted += turn.promoted
        self._revived += turn.revived

    def take_spare(self) -> list[Request]:
        """Hold no longer what is spare, and return it to be released; no caller ever had it."""
        spare = self.take(len(self._spare))
        for request in spare:
            self.held.pop(request.key, None)
            self._cancelled[request.key] = request.fence
        return spare

    def take_promoted(self) -> tuple[int, int]:
        """Return how many items became pending since this was called last, and how many were dead of them."""
        promoted, self._promoted, self._revived = (self._promoted, self._revived), 0, 0
        return promoted

    # A suspect

    @property
    def draining(self) -> bool:
        """Return whether nothing is claimed until nothing is held: beside a suspect, or to claim one."""
        return (self._holds_suspect or self._empties) and bool(self.held)  # it may be cancelled meanwhile

    def may_claim(self, entries: Sequence[Entry]) -> bool:
        """Return whether a turn with these entries may ask for claims: not beside a suspect that stays held.

        Who only empties itself goes on asking: Redis decides in each turn whether it still has to.
        """
        if not self._holds_suspect:
            return True
        return self.held.keys() <= {entry.request.key for entry in entries if isinstance(entry, Settlement)}

    # Claims that end otherwise

    def cancel_all(self, why: str) -> list[Request]:
        """Cancel all requests and return them: from here on nothing of them is settled.

        All are set before anything else is done: another thread may open a session meanwhile, and move the
        deadline that kept the last of them from beginning.
        """
        for request in list(self.held.values()):
            request.cancelled.set()
        held, self.held = self.held, {}
        self._spare.clear()
        cancelled = list(held.values())  # a turn under way may still change what was ours
        self._cancelled |= {request.key: request.fence for request in cancelled}
        for request in cancelled:
            self._cancel(request, why)
        return cancelled

    def lose(self) -> dict[str, int]:
        """Give up all claims, since the server no longer has the session; return their fences, by key.

        Among them are those that were cancelled before this was known.
        """
        self._holds_suspect = self._empties = False
        self.cancel_all("its session was lost")
        lost, self._cancelled = self._cancelled, {}
        return lost

    def compare(self, fences: Mapping[str, int]) -> list[Request]:
        """Cancel what the server has not; return what it has and we have not."""
        self._cancelled = {}
        for key, request in list(self.held.items()):
            if fences.get(key) != request.fence:
                del self.held[key]
                self._spare.pop(key, None)
                self._cancel(request, "its claim is gone")
        unknown = {key: fence for key, fence in fences.items() if key not in self.held}
        self._cancelled |= unknown
        return [Request(key, fence=fence) for key, fence in unknown.items()]

    def _cancel(self, request: Request, why: str) -> None:
        _logger.warning("queue %s: %s cancelled: %s", self._name, request.key, why)
        request.cancelled.set()
        self._on_cancel(request)


def _asked_by(entry: Entry) -> int:
    """Return whose result it is: that of the very request that was handed out, and of no copy."""
    return id(entry.request if isinstance(entry, Settlement) else entry)
