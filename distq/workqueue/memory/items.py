"""The items of a queue: how adds merge, the order of items, and their failure records."""

import bisect
import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from distq.redisio.limits import FAIR_LOOK
from distq.workqueue.memory.entries import Claim, Dead, FailureHistory, Item, Later, Link, Now
from distq.workqueue.memory.flows import Entered, Flows

# The bounds of one step are those of the scripts, which must not block Redis for long.
_PROMOTED_AT_ONCE = 100
_ENTER_AT_ONCE = 100

_CRASHES_COUNT_FOR = 72 * 3600 * 1_000_000
"""How long a crash counts, µs, from the begin of its claim; its fence is that time."""

_CRASHES_KEPT = 10

_LINKS_KEPT = 10_000

_SET_APART_AT_LEAST = 100
"""A turn stops moving suspects apart once it has moved so many."""

_SUSPECTS_LOOKED_AT = 100


class Items:
    """All items of one queue.

    ``stamp`` grows with each add, session and turn, and is never behind the clock: orders, session
    numbers and fences are stamps. ``suspects`` are ready items that wait apart from the others, as do those
    that are ``held_back`` since enough of their flow is claimed.
    """

    def __init__(self) -> None:
        self.pending: dict[Item, Now | Later] = {}
        self.claims: dict[Item, Claim] = {}
        self.failures: dict[Item, FailureHistory] = {}
        self.dead: dict[Item, Dead] = {}
        self.suspects: set[Item] = set()
        self.held_back: set[Item] = set()
        self.links: list[Link] = []
        self.flows = Flows()
        self.stamp = 0

    # Producers

    def add(
        self, now: int, items: Sequence[Item], priority: int, max_length: int | None, link: str = ""
    ) -> tuple[int, int]:
        """Make items pending now; return how many were not before, and how many fitted."""
        fitted = self._fitting(items, max_length)
        return self.enqueue(now, fitted, priority, link=link) if fitted else 0, len(fitted)

    def add_after(
        self, now: int, items: Sequence[Item], priority: int, delay: int, max_length: int | None
    ) -> tuple[int, int]:
        """Make items pending later; return how many were not before, and how many fitted."""
        fitted = self._fitting(items, max_length)
        return self.enqueue_later(now, fitted, priority, delay) if fitted else 0, len(fitted)

    def _fitting(self, items: Sequence[Item], max_length: int | None) -> Sequence[Item]:
        """Return the items before the first that does not fit; pending items need no room."""
        if max_length is None:
            return items
        free = max_length - len(self.pending)
        for place, item in enumerate(items):
            if item not in self.pending:
                free -= 1
                if free < 0:
                    return items[:place]
        return items

    def enqueue(
        self, now: int, items: Sequence[Item], priority: int, *, keep_pending: bool = False, link: str = ""
    ) -> int:
        """Make items pending now, in their order; return how many were not before.

        That supersedes a delay, whose higher priority stays, and revives dead items. With ``keep_pending``
        delayed and dead items stay so. A due item is pending since it was due, promoted or not: it keeps its
        place unless its priority is raised. In a fair queue the others are pending since one time.
        ``link`` is the span that adds the items.
        """
        before = self.stamp = max(self.stamp, now - 1)
        new = 0
        if keep_pending:
            items = self._neither_delayed_nor_dead(items)
        self.stamp += len(items)
        of_one_time = self.flows.is_fair and self.flows.entered is None
        since_of_each = [before + 1] * len(items) if of_one_time else range(before + 1, self.stamp + 1)
        added = list(zip(items, since_of_each, strict=True))
        if self.flows.is_fair:  # then suspects enter before the others of this add
            added.sort(key=lambda each: each[0] not in self.suspects)
        for item, since in added:
            entry = self.pending.get(item)
            self.dead.pop(item, None)
            if isinstance(entry, Now):
                self._raise(item, entry, priority, since)
            else:
                new += 1
                self._make_pending(item, self._entry(now, entry, priority, since))
        if link and self.stamp > before:
            self.links.append(Link(before + 1, self.stamp, link))
            del self.links[:-_LINKS_KEPT]
        return new

    def enqueue_later(
        self, now: int, items: Sequence[Item], priority: int, delay: int, *, keep_pending: bool = False
    ) -> int:
        """Make items pending after a delay in µs; return how many were not before.

        That revives dead items. With ``keep_pending`` delayed and dead items stay so.
        """
        self.next_stamp(now)
        if keep_pending:
            items = self._neither_delayed_nor_dead(items)
        new = len({*items} - self.pending.keys())
        for item in items:
            self.defer(now, item, now + delay, priority)
            self.dead.pop(item, None)
        return new

    def _neither_delayed_nor_dead(self, items: Sequence[Item]) -> Sequence[Item]:
        return [
            item for item in items if not (isinstance(self.pending.get(item), Later) or item in self.dead)
        ]

    def link_of(self, stood: Now) -> str:
        """Return the span that made pending the item at this place; '' if unknown.

        A time of whole ms is no stamp of an add: a delay ended then, or the item was revived.
        """
        place = bisect.bisect_left(self.links, stood.since, key=lambda link: link.last)
        if stood.since % 1000 == 0 or place == len(self.links) or self.links[place].first > stood.since:
            return ""
        return self.links[place].span

    def _entry(self, now: int, before: Later | None, priority: int, since: int) -> Now:
        if before is None:
            return Now(priority, since)
        was_due = before.due_ms * 1000 <= now and before.priority >= priority
        return Now(max(priority, before.priority), before.due_ms * 1000 if was_due else since)

    def defer(self, now: int, item: Item, due: float, priority: int) -> None:
        """Make an item pending at ``due``, in ms rounded up; an item pending now can only be raised.

        Of several delays the earliest wins, and the highest priority. A due item is pending now,
        promoted or not: a raise moves it to the end of its new level.
        """
        entry = self.pending.get(item)
        if isinstance(entry, Now):
            self._raise(item, entry, priority, self.stamp)
            return
        due_ms = math.ceil(due / 1000)
        if entry is not None:
            is_raised = entry.due_ms * 1000 <= now and priority > entry.priority
            due_ms = min(due_ms, now // 1000 if is_raised else entry.due_ms)
            priority = max(priority, entry.priority)
        self.pending[item] = Later(priority, due_ms)

    def _raise(self, item: Item, entry: Now, priority: int, since: int) -> None:
        """Move to the end of a higher level; keep the place otherwise."""
        if priority > entry.priority:
            self._make_pending(item, Now(priority, since))

    def _make_pending(self, item: Item, entry: Now) -> None:
        """Make an item pending now; in a fair queue it enters by its flow if it is ready and no suspect."""
        stood = self.pending.pop(item, None)
        is_held_back = item in self.held_back
        self.held_back.discard(item)
        if item not in self.claims:
            has_a_tag = isinstance(stood, Now) and stood.tag is not None and not is_held_back
            entry = entry._replace(tag=self._tag(item, entry, is_raised=has_a_tag))
        self.pending[item] = entry

    def _tag(self, item: Item, entry: Now, *, is_raised: bool) -> int | None:
        if self.flows.is_fair and item in self.suspects:  # it waits for no share
            first = self._first_tag(entry.priority)
            return entry.since if first is None else first
        if not (self.flows.goes_by_flow(entry) or (is_raised and self.flows.is_fair)):
            return None
        return self.flows.tag(item, entry, self._first_tag(entry.priority))

    def _first_tag(self, priority: int) -> int | None:
        """Return the tag of the first ready item of a priority, suspects apart."""
        ready = (self.place(item) for item in self.ready(len(self.pending)))
        return next((tag for level, tag in ready if -level == priority), None)

    def share(self, fair_by: str, *, replaces: bool) -> tuple[str, str]:
        """Make the queue fair by "namespace", or not fair by "none"; return its value now, and before.

        An earlier value stays unless this call ``replaces`` it. Waiting items get places by their flows with
        this call, if it replaces, and with the next turns. When the queue stops being fair, items keep their
        places, and are pending since the time of these.
        """
        before = self.flows.fair_by
        if before and not replaces:
            return before, before
        if fair_by != before:
            waits = bool(self.suspects or self.ready(1))
            self.flows = Flows(fair_by, becomes_so=waits and fair_by == "namespace")
        if replaces:
            self.enter()
        if fair_by != before and not self.flows.is_fair:
            for item, entry in self.pending.items():
                if isinstance(entry, Now):
                    self.pending[item] = _by_its_place(entry)
            for item, claim in self.claims.items():
                self.claims[item] = claim._replace(stood=_by_its_place(claim.stood))
        return fair_by, before

    def enter(self) -> None:
        """Give some items that wait by their time a place by flow, while the queue becomes fair."""
        entered = self.flows.entered
        if entered is None:
            return
        waiting = self.suspects_in_order() if entered.of_suspects else self.ready(len(self.pending))
        waiting = [item for item in waiting if self.place(item) >= entered.place]
        page = waiting[entered.passed : entered.passed + _ENTER_AT_ONCE]
        enter = [item for item in page if self._now(item).tag is None]
        firsts = {level: self._first_tag(level) for level in {self._now(item).priority for item in enter}}
        last = self.place(page[-1]) if page else entered.place
        at_last = [item for item in page if self.place(item) == last]
        for item in enter:
            entry = self._now(item)
            by_flow = self.flows.go_on if entered.of_suspects else partial(self.flows.tag, item)
            self.pending[item] = entry._replace(tag=by_flow(entry, firsts[entry.priority]))
        if len(page) == _ENTER_AT_ONCE:
            stay = sum(self.place(item) == last for item in at_last)
            passed = stay + (entered.passed if last == entered.place else 0)
            self.flows.entered = Entered(entered.of_suspects, last, passed)
        elif not entered.of_suspects and self.suspects:
            self.flows.entered = Entered(of_suspects=True)
        else:
            self.flows.entered = None

    def next_stamp(self, now: int) -> int:
        """Advance the stamp, at least to ``now``, and return it."""
        self.stamp = max(self.stamp + 1, now)
        return self.stamp

    # Consumers

    def ready(self, want: int) -> list[Item]:
        """Return the first items that do not wait apart: higher priority first, then the longest waiting."""
        return [item for _, item in heapq.nsmallest(want, self._waiting())]

    def any_ready(self) -> bool:
        """Return whether an item is ready that does not wait apart."""
        return next(self._waiting(), None) is not None

    def _waiting(self) -> Iterator[tuple[tuple[int, int], Item]]:
        """Yield the ready items that do not wait apart, each after its sort key."""
        for item, entry in self.pending.items():
            if (
                isinstance(entry, Now)
                and item not in self.claims
                and item not in self.suspects
                and item not in self.held_back
            ):
                yield entry.place, item

    def unclaim(self, item: Item) -> None:
        """End the claim of an item; if it was added meanwhile, it becomes ready."""
        del self.claims[item]
        entry = self.pending.get(item)
        if isinstance(entry, Now):
            self._make_pending(item, entry)

    def place(self, item: Item) -> tuple[int, int]:
        """Return the sort key of an item that is pending now: the lower comes first."""
        return self._now(item).place

    def _now(self, item: Item) -> Now:
        entry = self.pending[item]
        assert isinstance(entry, Now)  # noqa: S101  # callers ask for no other
        return entry

    def promote(self, now: int, want: int) -> int:
        """Make due items pending, as of their due times, some at a time; return how many."""
        due = sorted(
            (entry.due_ms, -entry.priority, item)
            for item, entry in self.pending.items()
            if isinstance(entry, Later) and entry.due_ms <= now // 1000
        )
        promoted = due[: max(want, _PROMOTED_AT_ONCE)]
        for due_ms, priority, item in promoted:
            self._make_pending(item, Now(-priority, due_ms * 1000))
        return len(promoted)

    def revive(self, now: int, after: int) -> int:
        """Make some of the items pending that were dead for ``after`` µs and may recover; return how many.

        They are pending as of then, to the ms. Their failures are kept: they get one attempt.
        """
        due = sorted(
            (dead.since, item)
            for item, dead in self.dead.items()
            if dead.time_may_mend and dead.since + after <= now
        )
        revived = due[:_PROMOTED_AT_ONCE]
        for since, item in revived:
            del self.dead[item]
            self._make_pending(item, Now(0, (since + after) // 1000 * 1000))
        return len(revived)

    def next_due(self, revive_after: int | None = None) -> int | None:
        """Return when the next delay ends, or an item is revived, µs."""
        due = [entry.due_ms * 1000 for entry in self.pending.values() if isinstance(entry, Later)]
        if revive_after is not None:
            due += [dead.since + revive_after for dead in self.dead.values() if dead.time_may_mend]
        return min(due, default=None)

    def due(self, now: int) -> int | None:
        """Return since when the first delayed item is due, µs; None if none is."""
        due = self.next_due()
        return due if due is not None and due // 1000 <= now // 1000 else None

    def levels(self, part: Literal["ready", "suspects", "held_back"] = "ready") -> dict[int, int]:
        """Return since when ready items of each priority wait, µs, of those that wait there.

        The first item of a priority waits the longest; in a fair queue one of the first does.
        """
        found: dict[int, list[tuple[tuple[int, int], Item, int]]] = {}
        apart = {"suspects": self.suspects, "held_back": self.held_back}
        waiting = self.ready(len(self.pending)) if part == "ready" else apart[part]
        for item in waiting:
            entry = self.pending[item]
            if isinstance(entry, Now):
                found.setdefault(entry.priority, []).append((entry.place, item, entry.since))
        looks_at = FAIR_LOOK if self.flows.is_fair else 1
        return {
            priority: min(since for _, _, since in heapq.nsmallest(looks_at, entries))
            for priority, entries in found.items()
        }

    def held_by(self, session: int) -> list[Item]:
        """Return the items that a session holds, sorted."""
        return sorted(item for item, claim in self.claims.items() if claim.session == session)

    def put_back(self, item: Item, stood: Now) -> None:
        """Give an item its old place, or a better one it got since; being pending now supersedes a delay.

        In a fair queue only a higher priority is a better place, and the old one is no earlier than that of
        all other ready items of its priority.
        """
        entry = self.pending.get(item)
        if isinstance(entry, Now) and entry.priority > stood.priority:
            self._make_pending(item, entry)
        elif isinstance(entry, Now) and not self.flows.is_fair:
            self.pending[item] = min(stood, entry, key=lambda now: now.place)
        elif self.flows.is_fair:
            self.pending.pop(item, None)
            self.pending[item] = self._no_earlier(stood)
        else:
            self.pending[item] = stood

    def _no_earlier(self, entry: Now) -> Now:
        """Return an entry that comes back with a tag that not all ready items of its priority have passed."""
        return entry._replace(tag=self.flows.go_on(entry, self._first_tag(entry.priority)))

    def bring_back(self, item: Item) -> None:
        """Let an item that is held back wait with the others again."""
        entry = self.pending[item]
        if isinstance(entry, Now) and self.flows.is_fair:
            tag = self.flows.come_back(item, entry, self._first_tag(entry.priority))
            self.pending[item] = entry._replace(tag=tag)
        self.held_back.discard(item)

    # Suspects

    def set_apart(self, now: int, want: int, hold_back: Callable[[Sequence[Item]], list[Item]]) -> list[Item]:
        """Return up to ``want`` ready items that may be claimed; others that it finds on the way wait apart.

        These are suspects, and items that ``hold_back`` holds back; it returns the rest.
        """
        others: list[Item] = []
        met = 0
        while found := self.ready(min(want - len(others), _SET_APART_AT_LEAST) + len(others))[len(others) :]:
            suspects = [item for item in found if self.is_suspect(item, now)]
            self.suspects.update(suspects)
            met += len(suspects)
            for item in found:
                if item not in self.suspects:
                    may_be_claimed = hold_back([item])
                    others += may_be_claimed
                    met += not may_be_claimed
            if len(others) >= want or met >= _SET_APART_AT_LEAST:
                break
        return others

    def suspects_in_order(self) -> list[Item]:
        """Return the suspects that wait apart, in the order in which they are claimed."""
        return sorted(self.suspects, key=lambda item: (self.place(item), item))

    def look_at_some_suspects(self, now: int) -> None:
        """Check a hundred suspects in a row, from a random place; cleared ones wait with the others again."""
        suspects = self.suspects_in_order()
        first = now % len(suspects) if len(suspects) > _SUSPECTS_LOOKED_AT else 0
        self.look_again(suspects[first : first + _SUSPECTS_LOOKED_AT], now)

    def look_again(self, items: Sequence[Item], now: int) -> None:
        """Let items that are no longer suspects wait with the others again, as items that are put back do."""
        cleared = [item for item in items if item in self.suspects and not self.is_suspect(item, now)]
        if self.flows.is_fair:  # each as if it came back alone: they keep their order
            self.pending |= {item: self._no_earlier(self._now(item)) for item in cleared}
        self.suspects.difference_update(cleared)

    # Failures

    def count_failure(self, item: Item, now: int, text: str) -> int:
        """Count a failure; return how many there are. Without a text the last one stays."""
        before = self.failures.get(item, FailureHistory())
        last = "" if before.reason == "parked" else before.text  # then it is an operator's text, no error
        self._remember(item, FailureHistory(before.count + 1, before.crashes, now, text=text or last))
        return before.count + 1

    def crash(self, item: Item, now: int, fence: int) -> bool:
        """Count a crash of the holder of this claim; return whether the item is dead by that."""
        failure = self.failures.get(item, FailureHistory())
        crashes = (*_recent(failure.crashes, now), fence)[-_CRASHES_KEPT:]
        self._remember(item, replace(failure, crashes=crashes))
        if len(crashes) < 3 or item in self.pending:  # an add during the claim always runs the item again
            return False
        self.park(item, now, "crashes", f"its workers died {len(crashes)} times", time_may_mend=True)
        return True

    def forgive(self, now: int, held: Sequence[tuple[Item, int]]) -> int:
        """Remove the crashes that were counted for claims, by item and fence; return how many there were.

        An item that was dead by such a crash becomes pending.
        """
        forgiven, revived = 0, list[Item]()
        for item, fence in held:
            failure = self.failures.get(item, FailureHistory())
            if fence not in failure.crashes:
                continue
            forgiven += 1
            failure = replace(failure, crashes=tuple(each for each in failure.crashes if each != fence))
            if failure.reason == "crashes" and len(failure.crashes) < 3:
                failure = FailureHistory(failure.count, failure.crashes)
                revived += [item] if item in self.dead else []
            self._remember(item, failure)
            if not (failure.count or failure.crashes) and failure.reason == "-":
                del self.failures[item]
        if revived:
            self.enqueue(now, revived, 0)
        self.look_again([item for item, _ in held], now)
        return forgiven

    def first_line_of_failure(self, item: Item) -> FailureHistory | None:
        """Return the failure record that comes with a claim; 250 tracebacks would be a megabyte."""
        failure = self.failures.get(item)
        return failure and _without_traceback(failure)

    def _remember(self, item: Item, failure: FailureHistory) -> None:
        """Store the record; of a live suspect without its traceback, since scripts read hundreds of them."""
        if len(failure.crashes) >= 2 and failure.reason == "-":
            failure = _without_traceback(failure)
        self.failures[item] = failure

    def is_suspect(self, item: Item, now: int) -> bool:
        """Return whether two sessions lapsed while they held it."""
        return len(_recent(self.failures.get(item, FailureHistory()).crashes, now)) >= 2

    def park(self, item: Item, now: int, reason: str, text: str, *, time_may_mend: bool = False) -> None:
        """Make the item dead, with the reason."""
        self.dead[item] = Dead(now, time_may_mend)
        failure = self.failures.get(item, FailureHistory())
        self.failures[item] = replace(failure, failed_at=now, reason=reason, text=text)

    def can_be_parked(self, item: Item) -> bool:
        """Return whether an item would come back by itself, and no session holds it."""
        would_be_revived = item in self.dead and self.dead[item].time_may_mend
        return (item in self.pending or would_be_revived) and item not in self.claims

    def end_unreadable(self, item: Item, now: int) -> None:
        """Make an item dead that cannot be read, with its failures, unless it is pending again."""
        if item not in self.pending:
            self.park(item, now, "unreadable", self.failures.get(item, FailureHistory()).text)

    def is_unmapped(self, item: Item) -> bool:
        """Return whether it is dead as an object that a watch could not map."""
        return item in self.dead and self.failures[item].reason == "unmapped"

    def forget(self, now: int, items: Sequence[Item]) -> int:
        """Drop the failure records of living items; return how many there were."""
        dropped = sum(item not in self.dead and self.failures.pop(item, None) is not None for item in items)
        self.look_again(items, now)
        return dropped


def _recent(crashes: Sequence[int], now: int) -> tuple[int, ...]:
    return tuple(fence for fence in crashes if now - fence < _CRASHES_COUNT_FOR)


def _by_its_place(entry: Now) -> Now:
    return Now(entry.priority, entry.place[1])


def _without_traceback(failure: FailureHistory) -> FailureHistory:
    return replace(failure, text=failure.text.partition("\n")[0])
