"""What a session holds: requests that were handed out, and what came for calls that ended before."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from distq.redisio.limits import TURN_LIMIT
from distq.workqueue.engine import Entry, SetAside
from distq.workqueue.interface import Disposition, Request, Settlement, Turn
from distq.workqueue.turns import REFUSED, UNKNOWN, TurnReply
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
        """Of those held: claims that no caller has, since a reply came after its call had ended."""
        self.results: dict[int, tuple[Entry | None, Disposition]] = {}
        """What became of entries whose calls do not know it yet; late, where a call ended with an error."""
        self._cancelled: dict[str, int] = {}
        """Fences of what was cancelled here, and what the server may have still, by key."""
        self._promoted = self._revived = 0
        self._holds_suspect = False
        self._empties = False

    # A turn comes and goes

    def sendable(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return what a turn may carry: the first entry of each claim that is held, and adds not done yet."""
        sent, settled = list[Entry](), set[str]()
        for entry in entries:
            if isinstance(entry, Settlement):
                key, held = entry.request.key, self.held.get(entry.request.key)
                if held is None or held.fence != entry.request.fence or key in settled:
                    continue
                settled.add(key)
            elif _asked_by(entry) in self.results:
                continue
            sent.append(entry)
        return sent

    def record(self, entries: Sequence[Entry], reply: TurnReply, worker: Worker, *, asked: bool) -> None:
        """Note what a turn did, which ``asked`` for claims or not; what it claimed is spare until handed out.

        The same reply twice changes nothing more.
        """
        was_draining = self.draining
        both = zip(entries, reply.dispositions, strict=True)
        settled = [(entry, disposition) for entry, disposition in both if isinstance(entry, Settlement)]
        for settlement, _ in settled:
            self.held.pop(settlement.request.key, None)
        worker.count(settled, reply.fence)
        self._keep(entries, reply.dispositions)
        took_suspect = reply.alone and bool(reply.requests)
        self._holds_suspect = took_suspect or (self._holds_suspect and bool(self.held))
        if asked:  # each such reply says anew whether this session empties itself for a suspect
            self._empties = reply.alone and not took_suspect
        claimed = {request.key: request for request in reply.requests}
        worker.count_claims(request for key, request in claimed.items() if key not in self.held)
        self._spare.update(claimed)
        self.held.update(claimed)
        self._promoted += reply.promoted
        self._revived += reply.revived
        if was_draining and not self.draining:
            self._on_drained()

    def _keep(self, entries: Sequence[Entry], dispositions: Sequence[Disposition]) -> None:
        for entry, disposition in zip(entries, dispositions, strict=True):
            if disposition.kind != "refused" and not isinstance(entry, SetAside):  # for which nobody comes
                self.results[_asked_by(entry)] = entry, disposition
        if len(self.results) > _RESULTS_LIMIT:
            for oldest in list(self.results)[:-_RESULTS_LIMIT]:
                del self.results[oldest]

    def doubt(self, entries: Sequence[Entry]) -> None:
        """Note that nobody will ever know what became of these."""
        self._keep(entries, [UNKNOWN] * len(entries))

    def take_results(self, entries: Sequence[Entry]) -> list[Disposition]:
        """Return what became of each entry, once; refused where nothing is known of it."""
        return [self.results.pop(_asked_by(entry), _NO_RESULT)[1] for entry in entries]

    def available(self) -> list[Request]:
        """Return the spare requests that may be handed out: not those cancelled meanwhile."""
        return [request for request in self._spare.values() if not request.cancelled.is_set()]

    def hand_out(self, requests: Iterable[Request]) -> None:
        """Note that callers have these."""
        for request in requests:
            self._spare.pop(request.key, None)

    def take_back(self, entries: Sequence[Entry], turn: Turn) -> None:
        """Note that the caller has gone for which this turn was."""
        self._keep(entries, turn.dispositions)
        self._spare.update({each.key: each for each in turn.requests if self.held.get(each.key) is each})
        self._promoted += turn.promoted
        self._revived += turn.revived

    def take_spare(self) -> list[Request]:
        """Cancel what is spare, and return it to be released."""
        spare, self._spare = self._spare, {}
        found = [request for key, request in spare.items() if self.held.get(key) is request]
        for request in found:
            del self.held[request.key]
            self._cancelled[request.key] = request.fence
            self._cancel(request, "its caller has gone")
        return found

    def take_promoted(self) -> tuple[int, int]:
        """Return how many items became pending since this was called last, and how many were dead of them."""
        promoted, self._promoted, self._revived = (self._promoted, self._revived), 0, 0
        return promoted

    def n_spare(self) -> int:
        """Return how many of those held no caller has."""
        spare = self._spare.copy()
        return sum(self.held.get(key) is request for key, request in spare.items())

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
        self._cancelled |= {key: request.fence for key, request in held.items()}
        for request in held.values():
            self._cancel(request, why)
        return list(held.values())

    def lose(self) -> dict[str, int]:
        """Give up all claims, since the server no longer has the session; return their fences, by key.

        Among them are those that were cancelled before this was known.
        """
        self._spare.clear()
        self._holds_suspect = self._empties = False
        self.cancel_all("its session was lost")
        lost, self._cancelled = self._cancelled, {}
        return lost

    def compare(self, fences: Mapping[str, int]) -> list[Request]:
        """Cancel what the server has not, and what is spare; return what it has and we have not."""
        self._cancelled = {}
        for key, request in list(self.held.items()):
            if fences.get(key) != request.fence:
                del self.held[key]
                self._cancel(request, "its claim is gone")
            elif self._spare.get(key) is request:
                del self.held[key]
                self._cancel(request, "its caller has gone")
        self._spare.clear()
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
