"""The same operations to an original and to ours; after each of them all that can be seen is compared."""

from collections import defaultdict
from collections.abc import Sequence

from distq.errors import Empty, ShutDown
from distq.metrics import ADDS, RETRIES
from distq.workqueue.interface import Result
from distq.workqueue.rate_limiters import ScriptedRateLimiter
from distq.workqueue.request import Request
from tests.proofs.oracle.differences import Differences, Item, PriorityQueue
from tests.proofs.oracle.original import Claim, Original
from tests.proofs.oracle.ours import Ours, since_began

MS = 1000
"""In µs, as all times here."""


class Duel:
    """One queue each, and one worker that uses both."""

    def __init__(
        self, original: Original, differences: Differences, ours: Ours, limiter: ScriptedRateLimiter
    ) -> None:
        self.original = original
        self.differences = differences
        self.ours = ours
        self.queue = ours.handle(rate_limiter=limiter)
        self.items: defaultdict[str, Item] = defaultdict(Item)
        self.claimed: dict[str, Request] = {}
        self.ended: list[Request] = []
        self.translated = 0
        """How many items were in another place than ours, or came once more."""
        self.delays_of_nothing = 0
        self.history: list[str] = []
        self._handed_out: Claim | None = None
        self.answer = original.begin(differences.queue, limiter.program())

    @property
    def now(self) -> int:
        """Return the time, the same for both."""
        return self.ours.now

    # What producers do

    def add(self, keys: Sequence[str], priority: int = 0) -> None:
        """Add keys now."""
        self._note("add", *keys, priority)
        self._do_add("add", *keys, priority=priority)
        self.queue.add(*keys, priority=priority)
        for key in keys:
            self._added(self.items[key], priority)
        self._compare()

    def add_after(self, keys: Sequence[str], delay: int, priority: int = 0) -> None:
        """Add keys after a delay, which may be none."""
        self._note("add_after", *keys, delay, priority)
        self.delays_of_nothing += len(keys) if delay <= 0 else 0
        self._do_add("add_after", *keys, duration=delay, priority=priority)
        self.queue.add(*keys, after=delay / 1e6, priority=priority)
        for key in keys:
            self._delayed(self.items[key], delay, priority)
        self._compare()

    def add_rate_limited(self, key: str) -> None:
        """Count a failure and add after the limiter's delay."""
        self._note("add_rate_limited", key)
        self._do("add_rate_limited", key)
        self.queue.add_rate_limited(key)
        self._delayed(self.items[key], round(self.answer.delay), 0)
        self._compare()

    def forget(self, key: str) -> None:
        """Drop the failures of a key."""
        self._note("forget", key)
        self._do("forget", key)
        self.queue.forget(key)
        self._compare()

    # What a worker does

    def get(self) -> None:
        """Claim the next item; where there is none, wait while other operations go on."""
        self._note("get")
        self._do("get")
        self._compare()

    def done(self, key: str) -> None:
        """End a claim and say nothing of how it went."""
        self._note("done", key)
        assert self.queue.done(self._end(key))
        if self.differences.forgets(self.items[key]):
            self._do("forget", key)
        self._compare()

    def succeed(self, key: str) -> None:
        """End a claim as a controller does after a success."""
        self._note("succeed", key)
        self._do("forget", key)
        assert self.queue.settle(self._end(key))
        self._compare()

    def fail(self, key: str) -> None:
        """End a claim as a controller does after an error: back off, with the priority kept."""
        self._note("fail", key)
        priority = self.claimed[key].priority
        self._do_add("add_rate_limited", key, priority=priority, limited=True)
        delay = round(self.answer.delay)
        assert self.queue.settle(self._end(key, delay, priority), RuntimeError("no"))
        self._compare()

    def requeue_after(self, key: str, delay: int, priority: int | None = None) -> None:
        """End a claim as a controller does where the reconciler asks to be called again."""
        self._note("requeue_after", key, delay, priority)
        new_priority = self.claimed[key].priority if priority is None else priority
        self._do("forget", key)
        self._do_add("add_after", key, duration=delay, priority=new_priority)
        result = Result(requeue_after=delay / 1e6, priority=priority)
        assert self.queue.settle(self._end(key, delay, new_priority), result)
        self._compare()

    def done_late(self, request: Request) -> None:
        """End a claim that had ended, of an item that is not queued: for both, nothing changes."""
        self._note("done_late", request.key)
        self._do("done", request.key)
        assert not self.queue.done(request)
        self._compare()

    def _end(self, key: str, delay: int | None = None, priority: int = 0) -> Request:
        """End the claim there, after the delay with which it comes back; return what to end here."""
        item, request = self.items[key], self.claimed.pop(key)
        if delay is not None:
            self._delayed(item, delay, priority)
        self._do("done", key)
        if item.pending:
            self.differences.done_while_dirty(item, self.now)
        self.ended.append(request)
        return request

    # Time

    def step(self, duration: int) -> None:
        """Let time pass."""
        self._note("step", duration)
        self._pass(duration)
        self._compare()

    def tick(self) -> None:
        """Let a ms pass, so that what follows has a time of its own."""
        self._pass(MS)

    def _pass(self, duration: int) -> None:
        """Let time pass; an item that becomes due is handed to a Get that waits at that very moment."""
        until = self.now + duration
        while self.now < until:
            moment = min([until, *(item.again for item in self.items.values() if item.again is not None)])
            waited = self.answer.waiting
            self._do("step", duration=moment - self.now)
            if waited and self.answer.elapsed - MS > self.now:
                self.ours.move_to(self.answer.elapsed - MS)
                assert self._get() is None, "handed out a ms before the original did"
            self.ours.move_to(self.answer.elapsed)
            self._become_due()
            self._match()

    def _become_due(self) -> None:
        for key, item in self.items.items():
            if item.due is not None and item.due <= self.now:
                item.pending, item.due = True, None
            if item.again is not None and item.again <= self.now:
                self.translated += 1
                self.queue.add(key)
                item.again = None
                if not item.pending:
                    item.pending, item.due, item.place = True, None, self.now

    # The end

    def end(self) -> None:
        """Shut both down: waiting calls return, and what is held can still be ended."""
        self._note("end")
        for key in self.items:
            self._do("look", key)
            assert self.queue.num_requeues(key) == self.answer.requeues, f"failures of {key}"
        if not self.answer.waiting:
            self.get()  # due items are counted here once a get looks
        self._compare_counters()
        waited = self.answer.waiting
        self._do("shut_down")
        self.queue.shut_down()
        assert self.queue.shutting_down
        assert self.answer.shutting_down
        if waited:
            assert self._handed_out is not None
            assert self._handed_out.shut_down
            try:
                self.queue.get()
            except ShutDown:
                pass
            else:
                raise AssertionError("get goes on after a shutdown")
        for key, request in self.claimed.items():
            self._do("done", key)
            assert self.queue.done(request)
        self.original.end()
        self.ours.close()

    def _compare_counters(self) -> None:
        counted = self.ours.counted
        self._do("figures")
        if counted is None:
            return
        assert self.answer.figures is not None
        assert counted[ADDS.name] == self.answer.figures["Adds"]["value"], "the metric adds"
        retries = self.differences.retries(counted[RETRIES.name], self.delays_of_nothing)
        assert retries == self.answer.figures["Retries"]["value"], "the metric retries"

    # What the operations share

    def _note(self, *words: object) -> None:
        self.history.append(f"{self.now // MS} ms: {' '.join(map(str, words))}")

    def _do(self, op: str, *keys: str, duration: int = 0, limited: bool = False, priority: int = 0) -> None:
        self.answer = self.original.do(op, *keys, duration=duration, limited=limited, priority=priority)
        assert not self.answer.error, self.answer.error
        self._handed_out = self.answer.claim or self._handed_out

    def _do_add(
        self, op: str, *keys: str, duration: int = 0, limited: bool = False, priority: int = 0
    ) -> None:
        """Use the one call of the priority queue that takes a priority, or several keys, where there are any.

        Between two calls of it a consumer that waits may get what the first one added.
        """
        if priority or (len(keys) > 1 and self.differences.queue == PriorityQueue.queue):
            op = "add_with_opts"
        self._do(op, *keys, duration=duration, limited=limited, priority=priority)

    def _added(self, item: Item, priority: int) -> None:
        raises = not item.exists or priority > item.priority
        if item.pending and raises:
            self.differences.raised_while_pending(item)
        if item.due is not None and not raises:
            self.differences.added_while_delayed(item)
        item.priority = priority if raises else item.priority
        item.pending, item.due = True, None

    def _delayed(self, item: Item, delay: int, priority: int) -> None:
        due = self.now + delay
        if delay <= 0:
            self._added(item, priority)
        elif item.pending:
            self._added(item, priority)
            self.differences.delayed_while_pending(item, due)
        else:
            if not item.exists or priority > item.priority:
                item.entered, item.priority = self.now, priority
            if item.again is not None and due < item.again:
                item.again = None
            item.due = min(due, item.due or due)

    def _compare(self) -> None:
        """Compare what both show now."""
        self._match()
        if self.answer.waiting:
            request = self._get()
            assert request is None, f"the original has nothing, ours handed out {request}"
        n_dirty = sum(self.items[key].pending for key in self.claimed)
        depth = self.queue.depth()
        assert self.differences.length(depth, n_dirty) == self.answer.length, (
            f"depth {depth}, {n_dirty} dirty"
        )

    def _match(self) -> None:
        """Claim here what the original handed out, and leave what is before it only by our order."""
        claim, self._handed_out = self._handed_out, None
        if claim is None:
            return
        before = []
        while (request := self._get()) is not None and request.key != claim.key:
            before.append(request)
        assert request is not None, f"the original handed out {claim.key}, ours {before}"
        for other in before:
            assert other.priority == request.priority, f"{other.key} is before {claim.key}"
            assert self._place(other) >= self._place(request), f"{other.key} is before {claim.key}"
            self.translated += self._place(other) > self._place(request)
        for other in reversed(before):
            assert self.queue.release(other)
        self._same(claim, request)
        item = self.items[claim.key]
        self.items[claim.key] = Item(again=item.again)
        self.claimed[claim.key] = request

    def _same(self, claim: Claim, request: Request) -> None:
        assert request.priority == claim.priority, f"priorities of {claim.key}"
        assert request.attempt == claim.requeues + 1, f"failures of {claim.key}"
        assert request.enqueued_at is not None
        if not self.items[claim.key].raised:  # to the ms: each add of ours has a µs of its own
            assert since_began(request.enqueued_at) // MS == (self.now - claim.latency) // MS, "latency"

    def _place(self, request: Request) -> int:
        place = self.items[request.key].place
        assert request.enqueued_at is not None
        return since_began(request.enqueued_at) if place is None else place

    def _get(self) -> Request | None:
        try:
            return self.queue.get(timeout=0)
        except Empty:
            return None
