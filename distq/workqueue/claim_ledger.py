"""The claims of a session: requests that were handed out, and claims that no caller has yet."""

import logging
from collections.abc import Callable, Mapping, Sequence

from distq.workqueue.dispositions import Dispositions
from distq.workqueue.engine import Entry, RateLimitedAdd
from distq.workqueue.interface import Settlement, Turn
from distq.workqueue.request import Request, is_cancelled
from distq.workqueue.turns import Claims, TurnReply

FEW = 16
"""Claims of a turn that are read at once: more would hold up the next turn."""

_logger = logging.getLogger("distq.queue")


class ClaimLedger:
    """The claims of one session, by key.

    Only the thread that holds the turn lock may change it, apart from ``take`` and ``cancel_all``.
    ``on_read`` receives the requests of each turn. ``interrupt`` ends the waits of threads which may find
    something to do.
    """

    def __init__(
        self,
        name: str,
        *,
        on_cancel: Callable[[Request], None],
        interrupt: Callable[[], None],
    ) -> None:
        self._name = name
        self.on_read: Callable[[Sequence[Request]], None] = lambda _: None
        self._on_cancel = on_cancel
        self._interrupt = interrupt
        self.held: dict[str, Request] = {}
        self.spare: dict[str, Request] = {}
        """The held claims that no caller has. Always a part of ``held``.

        The next caller gets them, in any thread and without a turn: ``pop`` gives each to one thread alone.
        """
        self._unread: Claims | None = None
        """The claims of the last turn, if they are many: spare as well, but not in ``held`` until read."""
        self.unread = 0
        """How many these are."""
        self.unreadable: list[Request] = []
        """Claims that were read, and that no handler can take; the session ends them."""
        self.promoted = self.revived = 0
        """How many items became pending since a call got the number, and how many of them were dead."""
        self._cancelled: dict[str, int] = {}
        """Fences, by key, of claims that were cancelled here and that the server may still have."""
        self._holds_suspect = False
        """Whether the one claim is a suspect, which is processed alone."""
        self._empties = False
        """Whether the session claims nothing until it holds nothing, to claim a suspect then."""

    # Turns

    def sendable(self, entries: Sequence[Entry], answered: Dispositions) -> Sequence[Entry]:
        """Return the entries that a turn may carry: one for each held claim, and adds not ``answered`` yet.

        If that is all of them, it is the same object.
        """
        held = self.held
        sent: dict[object, Entry] = {}
        for entry in entries:  # a worker pays this for each item, so it calls nothing
            if entry.__class__ is Settlement:
                request = entry.request
                key = request.key
                if key in held and held[key].fence == request.fence and key not in sent:
                    sent[key] = entry
            elif entry not in answered:
                sent[entry] = entry
        return entries if len(sent) == len(entries) else list(sent.values())

    def record(self, entries: Sequence[Entry], reply: TurnReply, *, asked: bool) -> None:
        """Record a turn, which ``asked`` for claims or not; its claims are spare until a call takes them."""
        if self.unread:  # before the claims of this turn take their place
            self.read()
        held = self.held
        was_draining = (self._holds_suspect or self._empties) and bool(held)
        for entry in entries:
            if entry.__class__ is Settlement:
                request = entry.request
                # else it was cancelled meanwhile, or the claims read meanwhile have the item again, since the
                # server had lost this one
                if request.key in held and held[request.key].fence == request.fence:
                    del held[request.key]
        if self._cancelled:
            self._forget_cancelled(entries)
        took_suspect = reply.alone and reply.claims.count > 0
        self._holds_suspect = took_suspect or (self._holds_suspect and bool(self.held))
        if asked:  # each such reply shows whether this session empties itself for a suspect
            self._empties = reply.alone and not took_suspect
        self.promoted += reply.promoted
        self.revived += reply.revived
        if reply.claims.count:
            self._unread, self.unread = reply.claims, reply.claims.count
            if self.unread <= FEW:
                self.read()
        if was_draining and not self.draining:  # threads that rested until then may claim again
            self._interrupt()

    def read(self) -> None:
        """Read the claims of the last turn, if that was not done."""
        unread = self._unread
        if unread is None:
            return
        requests, unreadable = unread.read()
        self.unreadable += unreadable
        held, replaced = self.held, list[Request]()
        for request in () if unread.are_over else requests:
            key = request.key
            if key in held and self.spare.pop(key, None) is None:  # in one step: another thread may take it
                replaced.append(held[key])
            self.held[key] = self.spare[key] = request
        self._unread, self.unread = None, 0  # not before: ``cancel_all`` may come at any point
        if unread.are_over:
            self._drop(requests)
        elif self.held is not held:  # ``cancel_all``, in another thread, may have had some of them
            for request in requests:
                if self.held.get(request.key) is not request:
                    self.spare.pop(request.key, None)
        if requests and not unread.are_over:
            self.on_read(requests)
        for request in replaced:  # only a server that lost a claim gives the item to its own session again
            self._cancel(request, "its claim is gone")

    def _drop(self, requests: Sequence[Request]) -> None:
        """Stop holding requests whose claims ended before they were read, or meanwhile."""
        for request in requests:
            request.cancelled.set()  # another thread may have taken it already
            self.spare.pop(request.key, None)
            self.held.pop(request.key, None)
        self._cancelled |= {request.key: request.fence for request in requests}

    def _forget_cancelled(self, entries: Sequence[Entry]) -> None:
        """Note that the server does not have these claims any longer: the turn ended or refused them."""
        for entry in entries:
            if not isinstance(entry, RateLimitedAdd) and (
                self._cancelled.get(entry.request.key) == entry.request.fence
            ):
                del self._cancelled[entry.request.key]

    def __len__(self) -> int:
        return len(self.held) + self.unread

    def spare_fences(self) -> set[int]:
        """Return the fences of the spare claims, unread ones included."""
        unread = self._unread
        fences = {request.fence for request in list(self.spare.values())}
        return fences if unread is None else fences | {unread.fence}

    def leave_cancelled(self, now: float) -> None:
        """Drop spare claims past their deadline: the heartbeat is about to cancel all held claims."""
        for key, request in list(self.spare.items()):
            if is_cancelled(request, now):
                self.spare.pop(key, None)

    def take(self, want: int) -> list[Request]:
        """Hand out up to ``want`` spare requests, in their order."""
        keys = list(self.spare)[:want]  # another thread may take some of them before this one does
        return [request for key in keys if (request := self.spare.pop(key, None)) is not None]

    def take_back(self, turn: Turn) -> None:
        """Take back a turn whose caller was interrupted: its claims are spare."""
        # without those that were cancelled meanwhile
        self.spare |= {each.key: each for each in turn.requests if self.held.get(each.key) is each}
        self.promoted += turn.promoted
        self.revived += turn.revived

    def take_spare(self) -> list[Request]:
        """Stop holding the spare requests and return them, to be released; no caller ever had them."""
        self.read()
        spare = self.take(len(self.spare))
        for request in spare:
            self.held.pop(request.key, None)
            self._cancelled[request.key] = request.fence
        return spare

    # A suspect

    @property
    def draining(self) -> bool:
        """Return whether the session waits until it holds nothing: it holds a suspect, or will claim one."""
        return (self._holds_suspect or self._empties) and bool(self.held)  # they may be cancelled meanwhile

    def may_claim(self, entries: Sequence[Entry]) -> bool:
        """Return whether a turn with these entries may ask for claims; not while a suspect stays held.

        A session that only empties itself may ask: Redis decides in each turn whether it still has to.
        """
        if not self._holds_suspect:
            return True
        return self.held.keys() <= {entry.request.key for entry in entries if isinstance(entry, Settlement)}

    # Claims that end without a settlement

    def cancel_all(self, why: str) -> list[Request]:
        """Cancel all requests and return them; from then on they cannot be settled."""
        if (unread := self._unread) is not None:
            unread.are_over = True
        # all events before anything else: callbacks take time, in which another thread may open a session,
        # which moves the deadline, and a handler that has not begun would begin
        for request in list(self.held.values()):
            request.cancelled.set()
        held, self.held = self.held, {}
        self.spare.clear()
        cancelled = list(held.values())  # a turn under way may still change ``held``
        self._cancelled |= {request.key: request.fence for request in cancelled}
        for request in cancelled:
            self._cancel(request, why)
        self._interrupt()
        return cancelled

    def lose(self) -> dict[str, int]:
        """Give up all claims, since the server no longer has the session; return their fences by key.

        They include claims that were cancelled before the loss was known.
        """
        self.read()  # the crashes that Redis counted for unread claims are forgiven, too
        self.unreadable.clear()
        self._holds_suspect = self._empties = False
        self.cancel_all("its session was lost")
        lost, self._cancelled = self._cancelled, {}
        return lost

    def compare(self, fences: Mapping[str, int]) -> list[Request]:
        """Cancel claims that the server does not have; return claims that only it has."""
        self.read()  # else claims that are in order would be unknown here
        self.unreadable.clear()  # only the server has them, so they are released
        self._cancelled = {}
        for key, request in list(self.held.items()):
            if fences.get(key) != request.fence:
                del self.held[key]
                self.spare.pop(key, None)
                self._cancel(request, "its claim is gone")
        unknown = {key: fence for key, fence in fences.items() if key not in self.held}
        self._cancelled |= unknown
        return [Request(key, fence=fence) for key, fence in unknown.items()]

    def _cancel(self, request: Request, why: str) -> None:
        _logger.warning("queue %s: %s cancelled: %s", self._name, request.key, why)
        request.cancelled.set()
        self._on_cancel(request)
