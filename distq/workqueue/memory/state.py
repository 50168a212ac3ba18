"""All of one queue, as its scripts in ``redisio/lua`` keep it in Redis: turns, and what people do to it."""

from collections.abc import Sequence
from dataclasses import replace

from distq.workqueue.memory.entries import Answer, Claim, Ending, Item, Later, Now, Policy, Session
from distq.workqueue.memory.items import Items
from distq.workqueue.memory.limiter import Buckets
from distq.workqueue.memory.sessions import Sessions
from distq.workqueue.memory.streams import Streams


class QueueState:
    """One queue."""

    def __init__(self) -> None:
        self.items = Items()
        self.sessions = Sessions(self.items)
        self.buckets = Buckets()
        self.streams = Streams(self.items)
        self.paused: int | None = None

    # Turns

    def turn(
        self,
        *,
        now: int,
        number: int,
        nonce: str,
        op: str,
        endings: Sequence[Ending],
        want: int,
        policy: Policy,
        max_clock_step: int,
    ) -> Answer | None:
        """End claims and take new ones; None where the session is lost. A resent turn changes nothing."""
        session = self.sessions.live(number, nonce)
        if session is not None and session.op == op:
            return self._answered_before(number, session, endings)
        self.sessions.advance_clock(now, max_clock_step)
        session = self.sessions.live(number, nonce)
        if session is None:
            return None
        fence = self.items.next_stamp(now)
        refused = [
            place for place, ending in enumerate(endings, 1) if not self._end(now, number, ending, policy)
        ]
        dispositions = self._dispositions(endings)
        session.op, session.fence, session.refused = op, fence, refused
        if policy.fleet_concurrency is not None:
            want = min(want, policy.fleet_concurrency - len(self.items.claims))
        promoted, names, alone = 0, list[Item](), False
        if want > 0 and self.paused is None:
            promoted = self.items.promote(now, want)
            names, alone = self._claim(number, fence, want)
        return replace(self._answer(session, alone, dispositions, names), promoted=promoted)

    def _answered_before(self, number: int, session: Session, endings: Sequence[Ending]) -> Answer:
        """Answer from what stands: nothing happens twice."""
        held = self.items.held_by(number)
        names = [item for item in held if self.items.claims[item].fence == session.fence]
        alone = any(map(self.items.is_suspect, names))
        return self._answer(session, alone, self._dispositions(endings), names)

    def _answer(
        self, session: Session, alone: bool, dispositions: Sequence[str], names: Sequence[Item]
    ) -> Answer:
        claimed = [(item, self.items.claims[item].stood) for item in names]
        failures = [self.items.failures.get(item) for item in names]
        return Answer(session.fence, alone, session.refused, dispositions, claimed, failures)

    def _dispositions(self, endings: Sequence[Ending]) -> list[str]:
        """Tell where items stand whose claim ended in no success: due time in ms, parked or pending."""
        return [
            str(entry.due_ms)
            if isinstance(entry := self.items.pending.get(item), Later)
            else "parked"
            if item in self.items.dead
            else "pending"
            for item in [each.item for each in endings if each.outcome != "success"]
        ]

    def _claim(self, number: int, fence: int, want: int) -> tuple[list[Item], bool]:
        """Claim what stands before the first suspect; or it alone, by a session that holds nothing else."""
        items = self.items
        names = items.ready(want)
        suspects = [place for place, item in enumerate(names) if items.is_suspect(item)]
        alone = suspects[:1] == [0]
        if alone:
            names = [] if items.held_by(number) else names[:1]
        elif suspects:
            names = names[: suspects[0]]
        for item in names:
            stood = items.pending.pop(item)
            assert isinstance(stood, Now)  # noqa: S101  # what is ready is
            items.claims[item] = Claim(number, fence, stood)
        return names, alone

    # How a claim ends

    def _end(self, now: int, number: int, ending: Ending, policy: Policy) -> bool:
        """End one claim; return False where it is refused, since it had ended before."""
        items, item, outcome = self.items, ending.item, ending.outcome
        if outcome == "limit":
            count = items.count_failure(item, now, ending.text)
            items.defer(now, item, self._due(now, ending, policy, count), ending.priority or 0)
            items.dead.pop(item, None)
            return True
        claim = items.claims.get(item)
        if claim is None or (claim.session, claim.fence) != (number, ending.fence):
            return False
        del items.claims[item]
        priority = claim.stood.priority if ending.priority is None else ending.priority
        if outcome == "release":
            items.put_back(item, claim.stood)
        elif outcome == "done":
            if item not in items.pending:
                items.failures.pop(item, None)
        elif outcome in ("success", "after"):
            items.failures.pop(item, None)
            if outcome == "after":
                items.defer(now, item, self._due(now, ending, policy, 1), priority)
        else:
            self._fail(now, ending, priority, policy)
        return True

    def _fail(self, now: int, ending: Ending, priority: int, policy: Policy) -> None:
        """Count a failure, and back off or park; what is pending anew has a try of its own."""
        items, item = self.items, ending.item
        count = items.count_failure(item, now, ending.text)
        if ending.outcome == "park" or (policy.max_retries is not None and count > policy.max_retries):
            if item not in items.pending:
                items.park(item, now, "terminal" if ending.outcome == "park" else "retries", ending.text)
            return
        items.defer(now, item, self._due(now, ending, policy, count), priority)

    def _due(self, now: int, ending: Ending, policy: Policy, count: int) -> float:
        return now + self.buckets.delay(ending.limiter or policy.limiter, count, now)

    # What people do

    def pause(self, now: int) -> int:
        """Stop claims and promotion; all else goes on. Return 0 where it was paused."""
        changed = self.paused is None
        if changed:
            self.paused = now
        return int(changed)

    def resume(self) -> int:
        """Let claims go on; return 0 where it was not paused."""
        changed, self.paused = self.paused is not None, None
        return int(changed)

    def park(self, now: int, reason: str, names: Sequence[Item]) -> int:
        """Move what waits, now or later, and nobody holds to the dead; return how many items."""
        parked = [each for each in names if each in self.items.pending and each not in self.items.claims]
        for item in parked:
            del self.items.pending[item]
            self.items.park(item, now, "parked", reason)
        return len(parked)

    def requeue(self, now: int, state: str, names: Sequence[Item]) -> int:
        """Drop delay, failure record and death; return how many items changed."""
        items, changed = self.items, 0
        for item in [each for each in names if self._is_in(each, state)]:
            failed = items.failures.pop(item, None) is not None
            waits, dead = isinstance(items.pending.get(item), Later), item in items.dead
            if waits or dead:
                items.enqueue(now, [item], -900 if waits else 0)  # a delayed item keeps its own priority
            changed += failed or waits or dead
        return changed

    def delete(self, state: str, names: Sequence[Item]) -> int:
        """Drop what is pending or dead; return how many items changed."""
        items, changed = self.items, 0
        for item in [each for each in names if self._is_in(each, state)]:
            if item in items.pending or item in items.dead:
                items.pending.pop(item, None)
                items.dead.pop(item, None)
                if item not in items.claims:
                    items.failures.pop(item, None)
                changed += 1
        return changed

    def _is_in(self, item: Item, state: str) -> bool:
        entry, claimed = self.items.pending.get(item), item in self.items.claims
        return {
            "": True,
            "ready": isinstance(entry, Now) and not claimed,
            "dirty": isinstance(entry, Now) and claimed,
            "delayed": isinstance(entry, Later),
            "processing": claimed,
            "dead": item in self.items.dead,
        }[state]
