"""The state of one queue, as the scripts in ``redisio/lua`` keep it: turns, and operations of people."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from distq.redisio.commit import Commit
from distq.workqueue.memory.entries import (
    Answer,
    Claim,
    Emptying,
    Ending,
    Item,
    Later,
    Now,
    Policy,
    Session,
    WentBack,
)
from distq.workqueue.memory.flow_bound import FlowBound
from distq.workqueue.memory.history import History, Line, waits_since
from distq.workqueue.memory.items import Items
from distq.workqueue.memory.limiter import Buckets
from distq.workqueue.memory.sessions import Sessions
from distq.workqueue.memory.streams import Streams

_EMPTYING_AT_MOST = 600_000_000
"""How long one session may take to empty itself for a suspect, µs, before another may."""

_A_DAY = 86_400_000_000
"""How long claims wait for the watches of a leader at most, µs: a later time was written by a wrong clock."""


class QueueState:
    """One queue. Each operation gets the time, ``now``: µs by the queue's clock."""

    def __init__(self) -> None:
        self.items = Items()
        self.history = History()
        self.bound = FlowBound(self.items)
        self.sessions = Sessions(self.items, self.bound, self.history)
        self.buckets = Buckets()
        self.streams = Streams(self.items)
        self.paused: int | None = None
        self.catching_up: tuple[str, int] | None = None
        """The epoch of the leader whose watches catch up, and until when turns wait for them."""
        self.emptying: Emptying | None = None
        self._added = 0
        """How many items the endings of a turn made pending without a delay."""

    # Turns

    def turn(
        self,
        *,
        now: int,
        number: int,
        nonce: str,
        op: str,
        after: str = "",
        endings: Sequence[Ending],
        want: int,
        policy: Policy,
        max_clock_step: int,
    ) -> Answer | WentBack | None:
        """End claims and take new ones; None if the session is lost. A resent turn changes nothing.

        Nor does a turn whose ``after`` is not the session's last turn, by number and fence: the store of the
        queue went back to an older state since then.
        """
        session = self.sessions.live(number, nonce)
        if session is not None and session.op == op:
            return self._answered_before(number, session, endings, policy)
        self.sessions.advance_clock(now, max_clock_step)
        session = self.sessions.live(number, nonce)
        if session is None:
            return None
        if after and after != session.last_turn:
            return WentBack(session.last_turn)
        fence = self.items.next_stamp(now)
        self._added = 0
        refused = [
            place for place, ending in enumerate(endings, 1) if not self._end(now, number, ending, policy)
        ]
        dispositions = self._dispositions(endings)
        limit = policy.fleet_concurrency_per_flow if self.items.flows.is_fair else None
        self.bound.begin(now, _ended(endings, refused), limit)
        session.op, session.fence, session.refused = op, fence, refused
        if policy.fleet_concurrency is not None:
            want = min(want, policy.fleet_concurrency - len(self.items.claims))
        promoted, revived, names, alone = 0, 0, list[Item](), False
        if not self._waits_for_watches(now):
            self.catching_up = None
        self.items.enter()
        if want > 0 and self.paused is None and self.catching_up is None:
            promoted = self.items.promote(now, want)
            if policy.revive_after is not None:
                revived = self.items.revive(now, policy.revive_after)
            names, alone = self._claim(now, number, fence, want, limit)
        last = self.items.claims[names[-1]].stood if names and not alone else None
        self.items.flows.claim(last, leaves_some=self.items.any_ready())
        if self.items.flows.is_fair:
            self.bound.rest()
        session.alone = alone
        answer = self._answer(session, dispositions, names, policy)
        return replace(answer, promoted=promoted + revived + self._added, revived=revived)

    def _answered_before(
        self, number: int, session: Session, endings: Sequence[Ending], policy: Policy
    ) -> Answer:
        """Answer from the current state: nothing happens twice."""
        held = self.items.held_by(number)
        names = [item for item in held if self.items.claims[item].fence == session.fence]
        return self._answer(session, self._dispositions(endings), names, policy)

    def _answer(
        self, session: Session, dispositions: Sequence[str], names: Sequence[Item], policy: Policy
    ) -> Answer:
        claimed = [(item, self.items.claims[item].stood._replace(tag=None)) for item in names]
        failures = [self.items.first_line_of_failure(item) for item in names]
        links = [self.items.link_of(stood) for _, stood in claimed] if policy.wants_links else list[str]()
        return Answer(
            session.fence, session.alone, session.refused, dispositions, claimed, failures, links=links
        )

    def _dispositions(self, endings: Sequence[Ending]) -> list[str]:
        """Return the state of each item settled without success: due time in ms, parked or pending."""
        return [
            str(entry.due_ms)
            if isinstance(entry := self.items.pending.get(item), Later)
            else "parked"
            if item in self.items.dead
            else "pending"
            for item in [each.item for each in endings if each.outcome != "success"]
        ]

    def _claim(
        self, now: int, number: int, fence: int, want: int, limit: int | None
    ) -> tuple[list[Item], bool]:
        items = self.items
        looks = items.failures or limit is not None
        names, alone = self._choose(now, number, want, limit) if looks else (items.ready(want), False)
        if limit is not None:
            self.bound.claim(names)
        for item in names:
            stood = items.pending.pop(item)
            assert isinstance(stood, Now)  # noqa: S101  # ready items are
            items.claims[item] = Claim(number, fence, stood)
            items.suspects.discard(item)
        return names, alone

    def _choose(self, now: int, number: int, want: int, limit: int | None) -> tuple[list[Item], bool]:
        """Choose the items to claim if any failed or flows have a limit; return if a suspect decided it.

        One session at a time empties itself for suspects: it claims nothing until it holds nothing, then the
        suspects one by one. It begins once the first suspect comes before all other items. Other sessions
        claim the other items; one that holds nothing, and finds no other item, also claims a suspect.
        """
        items = self.items
        ours = self._empties(now, number)
        counts = Counter[str]()

        def hold_back(found: Sequence[Item]) -> list[Item]:
            return list(found) if limit is None else self.bound.hold_back(found, limit, counts)

        others = [] if ours and items.suspects else items.set_apart(now, want, hold_back)
        suspects = items.suspects_in_order()
        if ours and not suspects:
            self.emptying = None
        comes_first = suspects and not (others and items.place(others[0]) <= items.place(suspects[0]))
        if not (ours or comes_first) or not suspects:
            return others, False
        if limit is not None and self.bound.is_full(suspects[0], limit):
            return others, False
        holds = bool(items.held_by(number))
        if ours or self._may_empty(now, number):
            if not (ours and holds):
                self.emptying = Emptying(number, now)
            return ([] if holds else suspects[:1]), True
        return (others, False) if holds or others or items.any_ready() else (suspects[:1], True)

    def _empties(self, now: int, number: int) -> bool:
        emptying = self.emptying
        return (
            emptying is not None
            and emptying.session == number
            and 0 <= now - emptying.since < _EMPTYING_AT_MOST
        )

    def _may_empty(self, now: int, number: int) -> bool:
        """Return whether this session may: no other does so in time, and this one was not too slow lately."""
        if self.emptying is None:
            return True
        took = now - self.emptying.since
        if self.emptying.session == number:
            return not _EMPTYING_AT_MOST <= took < 2 * _EMPTYING_AT_MOST
        in_time = 0 <= took < _EMPTYING_AT_MOST
        return not (in_time and self.items.held_by(self.emptying.session))

    # How a claim ends

    def _end(self, now: int, number: int, ending: Ending, policy: Policy) -> bool:
        """End one claim; return False if it had ended before: then it is refused."""
        items, item, outcome = self.items, ending.item, ending.outcome
        if outcome == "limit":
            count = items.count_failure(item, now, ending.text)
            self._come_back(now, ending, ending.priority or 0, policy, count)
            items.dead.pop(item, None)
            return True
        claim = items.claims.get(item)
        if claim is None or (claim.session, claim.fence) != (number, ending.fence):
            return False
        if outcome == "release":
            del items.claims[item]
            self.bound.put_back(item, claim.stood)
            return True
        items.unclaim(item)
        priority = claim.stood.priority if ending.priority is None else ending.priority
        if outcome == "unreadable":
            items.end_unreadable(item, now)
        elif outcome == "done":
            if item not in items.pending:
                items.failures.pop(item, None)
        elif outcome == "success":
            items.failures.pop(item, None)
        elif outcome in ("after", "keep"):
            if outcome == "after":
                items.failures.pop(item, None)
            self._come_back(now, ending, priority, policy, 1)
        else:
            self._fail(now, ending, priority, policy)
        return True

    def _fail(self, now: int, ending: Ending, priority: int, policy: Policy) -> None:
        """Count a failure; back off or become dead. An item that is pending again gets an attempt anyway."""
        items, item = self.items, ending.item
        count = items.count_failure(item, now, ending.text)
        if ending.outcome == "park" or (policy.max_retries is not None and count > policy.max_retries):
            if item not in items.pending:
                is_final = ending.outcome == "park"
                reason = "terminal" if is_final else "retries"
                items.park(item, now, reason, ending.text, time_may_mend=not is_final)
            return
        self._come_back(now, ending, priority, policy, count)

    def _come_back(self, now: int, ending: Ending, priority: int, policy: Policy, count: int) -> None:
        """Make the item pending after the limiter's delay; a delay of 0 is an add."""
        delay = self.buckets.delay(ending.limiter or policy.limiter, count, now)
        if delay > 0:
            self.items.defer(now, ending.item, now + delay, priority)
        else:
            self._added += self.items.enqueue(now, [ending.item], priority)

    # Notes for people

    def heartbeat(
        self, now: int, number: int, nonce: str, worker: str, *, claim_duration: float, max_clock_step: int
    ) -> tuple[int, str] | None:
        """Keep a session alive, see ``Sessions.heartbeat``, and note the queue in its history."""
        reply = self.sessions.heartbeat(
            now, number, nonce, worker, claim_duration=claim_duration, max_clock_step=max_clock_step
        )
        if reply is not None:
            self.history.sample(now, lambda: self._numbers(now))
        return reply

    def commit(self, now: int, stream: str, commit: Commit) -> list[str | int]:
        """Commit a batch, see ``Streams.commit``, and note the queue in its history."""
        stored = self.streams.all.get(stream)
        reply = self.streams.commit(now, stream, commit)
        if reply[0] == "OK" and not (stored and commit.repeats(stored.batch)):
            self.history.sample(now, lambda: self._numbers(now))
        return reply

    def _numbers(self, now: int) -> Line:
        states = ("ready", "delayed", "processing", "dirty", "dead")
        known = {*self.items.pending, *self.items.claims, *self.items.dead}
        counts = [sum(self._is_in(item, state) for item in known) for state in states]
        workers = sum(bool(session.worker) for session in self.sessions.all.values())
        levels = [self.items.levels(part) for part in ("ready", "suspects", "held_back")]
        since = waits_since(levels, self.items.due(now))
        waited: int | str = "-" if since is None else max(0, (now - since) // 1000)
        return (*counts, len(self.items.failures), workers, waited, int(self.paused is not None))

    # Operations of people

    def pause(self, now: int) -> int:
        """Stop claims and promotion; everything else continues. Return 0 if it was paused before."""
        changed = self.paused is None
        if changed:
            self.paused = now
        return int(changed)

    def resume(self) -> int:
        """Permit claims again; return 0 if it was not paused."""
        changed, self.paused = self.paused is not None, None
        return int(changed)

    def catch_up(self, now: int, epoch: str, timeout: int) -> int:
        """Stop claims until this leader's watches caught up, at most ``timeout`` µs; 0 for an older epoch."""
        if self.catching_up and self._waits_for_watches(now) and int(epoch) < int(self.catching_up[0]):
            return 0
        self.catching_up = epoch, now + min(timeout, _A_DAY)
        return 1

    def caught_up(self, epoch: str) -> int:
        """Permit claims again; 0 if this leader did not stop them."""
        if self.catching_up is None or self.catching_up[0] != epoch:
            return 0
        self.catching_up = None
        return 1

    def _waits_for_watches(self, now: int) -> bool:
        return self.catching_up is not None and 0 < self.catching_up[1] - now <= _A_DAY

    def park(self, now: int, reason: str, names: Sequence[Item]) -> int:
        """Make pending items dead that no session holds; return how many items changed.

        Dead items that time would revive stay dead from now on.
        """
        parked = [each for each in names if self.items.can_be_parked(each)]
        for item in parked:
            self.items.pending.pop(item, None)
            self.items.suspects.discard(item)
            self.items.held_back.discard(item)
            self.items.park(item, now, "parked", reason)
        return len(parked)

    def requeue(self, now: int, state: str, names: Sequence[Item]) -> int:
        """Drop delay, failure record and death; return how many items changed.

        Those that were delayed or dead become pending now, in their order, the delayed before the dead.
        An object that a watch could not map stays dead: its name is no key.
        """
        items = self.items
        chosen = [each for each in names if self._is_in(each, state) and not items.is_unmapped(each)]
        delayed = [item for item in chosen if isinstance(items.pending.get(item), Later)]
        dead = [item for item in chosen if item in items.dead]
        failed = [item for item in chosen if items.failures.pop(item, None) is not None]
        if delayed:
            items.enqueue(now, delayed, -900)  # the lowest, so that each keeps its own priority
        if dead:
            items.enqueue(now, dead, 0)
        items.look_again(names, now)
        return len({*delayed, *dead, *failed})

    def delete(self, state: str, names: Sequence[Item]) -> int:
        """Drop pending and dead items; return how many items changed."""
        items, changed = self.items, 0
        for item in [each for each in names if self._is_in(each, state)]:
            if item in items.pending or item in items.dead:
                items.pending.pop(item, None)
                items.suspects.discard(item)
                items.held_back.discard(item)
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


def _ended(endings: Sequence[Ending], refused: Sequence[int]) -> list[Item]:
    return [
        ending.item
        for place, ending in enumerate(endings, 1)
        if place not in refused and ending.outcome != "limit"
    ]
