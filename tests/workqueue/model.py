"""What a queue does, in plain Python: the oracle of the random test.

Written from the design's words and not from the scripts: one dictionary a notion, no encodings, no
bounds but the promised ones. An item has at most one pending entry, for now or for later, and at most
one claim, each independent of the other. Times are µs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

Item = bytes
Limiter = tuple[object, ...]
"""As the queue's limiters are written, nested: ``("maxof", ("exp", 5000, 10**9), ("bucket", 10, 3))``."""

BETWEEN_LOOKS = 100_000
TEN_YEARS = 315_576_000 * 1_000_000
TAKEN_BACK_AT_ONCE = PROMOTED_AT_ONCE = 100


class Now(NamedTuple):
    """Pending now, since ``since``: ready, or dirty while the item is claimed."""

    priority: int
    since: int


class Later(NamedTuple):
    """Pending from ``due_ms`` on: delayed."""

    priority: int
    due_ms: int


class Claim(NamedTuple):
    """A session's hold on an item, and where it stood before."""

    session: int
    fence: int
    stood: Now


@dataclass(frozen=True)
class Failure:
    """What is remembered of an item that failed; ``reason`` is that of its last parking."""

    count: int = 0
    crashes: int = 0
    failed_at: int = 0
    reason: str = "-"
    text: str = ""


@dataclass
class Session:
    """Who may hold claims; ``op``, ``fence`` and ``refused`` tell what its last turn answered."""

    nonce: str
    deadline: int
    worker: str = ""
    op: str = "-"
    fence: int = 0
    refused: Sequence[int] = ()
    ended: bool = False  # its claims are being taken back
    crashed: bool = False


class Policy(NamedTuple):
    """What a handle says with each turn."""

    limiter: Limiter
    max_retries: int | None = None
    fleet_concurrency: int | None = None


class Settlement(NamedTuple):
    """The end of a claim; ``outcome`` limit counts a failure without one."""

    item: Item
    fence: int
    outcome: str = "success"
    limiter: Limiter | None = None
    priority: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Answer:
    """What a turn tells."""

    fence: int
    alone: bool
    refused: Sequence[int]
    fates: Sequence[str]
    claimed: Sequence[tuple[Item, Now]]
    failures: Sequence[Failure | None]


class Stream(NamedTuple):
    """How far a watched resource was handed over."""

    epoch: str
    position: str
    batch: str
    about: str


class QueueModel:
    """One queue."""

    def __init__(self, claim_duration: int) -> None:
        self.claim_duration = claim_duration
        self.gap = min(claim_duration // 3, 10_000_000)
        self.pending: dict[Item, Now | Later] = {}
        self.claims: dict[Item, Claim] = {}
        self.failures: dict[Item, Failure] = {}
        self.dead: dict[Item, int] = {}
        self.sessions: dict[int, Session] = {}
        self.streams: dict[str, Stream] = {}
        self.known: dict[str, str] = {}
        self.buckets: dict[tuple[object, ...], tuple[float, int]] = {}
        self.paused = False
        self.stamp = 0
        self.seen: int | None = None
        self.clock = 0

    def ready(self) -> list[Item]:
        """Return the items that wait for a claim, in the order in which they get one."""
        waiting = [
            (-entry.priority, entry.since, item)
            for item, entry in self.pending.items()
            if isinstance(entry, Now) and item not in self.claims
        ]
        return [item for _, _, item in sorted(waiting)]

    # Producers

    def add(self, now: int, items: Sequence[Item], priority: int, max_length: int | None) -> list[int]:
        """Make items pending now; return how many were not, and how many fitted."""
        fitted = self._fitting(items, max_length)
        return [self._enqueue(now, fitted, priority) if fitted else 0, len(fitted)]

    def add_after(
        self, now: int, items: Sequence[Item], priority: int, delay: int, max_length: int | None
    ) -> list[int]:
        """Make items pending later; return how many were not pending, and how many fitted."""
        fitted = self._fitting(items, max_length)
        if not fitted:
            return [0, 0]
        self._next_stamp(now)
        new = sum(item not in self.pending for item in fitted)
        for item in fitted:
            self._defer(item, now + delay, priority)
            self.dead.pop(item, None)
        return [new, len(fitted)]

    def _fitting(self, items: Sequence[Item], max_length: int | None) -> Sequence[Item]:
        if max_length is None:
            return items
        room = max_length - len(self.pending)
        for place, item in enumerate(items):
            if item not in self.pending:
                room -= 1
                if room < 0:
                    return items[:place]
        return items

    def _enqueue(self, now: int, items: Sequence[Item], priority: int, keep_pending: bool = False) -> int:
        self.stamp = max(self.stamp, now - 1)
        new = 0
        for item in items:
            before = self.pending.get(item)
            if keep_pending and (isinstance(before, Later) or item in self.dead):
                continue
            self.stamp += 1
            self.dead.pop(item, None)
            if isinstance(before, Now):
                self._raise(item, priority, self.stamp)
            else:
                new += 1
                self.pending[item] = Now(max(priority, before.priority) if before else priority, self.stamp)
        return new

    def _raise(self, item: Item, priority: int, since: int) -> None:
        """Move to the end of a higher level; keep the place otherwise."""
        entry = self.pending[item]
        if priority > entry.priority:
            self.pending[item] = Now(priority, since)

    def _defer(self, item: Item, due: float, priority: int) -> None:
        entry = self.pending.get(item)
        if isinstance(entry, Now):
            self._raise(item, priority, self.stamp)
            return
        due_ms = math.ceil(due / 1000)
        if entry is not None:
            due_ms, priority = min(due_ms, entry.due_ms), max(priority, entry.priority)
        self.pending[item] = Later(priority, due_ms)

    # Sessions and clocks

    def open(self, now: int, nonce: str, worker: str) -> int:
        """Begin a session; return its number."""
        self._look(now)
        number = self._next_stamp(now)
        self.sessions[number] = Session(nonce, self.clock + self.claim_duration, worker)
        return number

    def heartbeat(self, now: int, number: int, nonce: str, worker: str) -> int | None:
        """Keep a session alive; return how many claims it has, None where it is lost."""
        self._look(now)
        session = self._session(number, nonce)
        if session is None:
            return None
        session.deadline, session.worker = self.clock + self.claim_duration, worker
        return len(self._held(number))

    def close(self, number: int, nonce: str) -> int:
        """End a session; what it holds is taken back without a crash."""
        session = self._session(number, nonce)
        if session is None:
            return 0
        session.ended, session.deadline = True, 0
        if not self._held(number):
            del self.sessions[number]
        return 1

    def _session(self, number: int, nonce: str) -> Session | None:
        session = self.sessions.get(number)
        return session if session and session.nonce == nonce and not session.ended else None

    def _held(self, number: int) -> list[Item]:
        return sorted(item for item, claim in self.claims.items() if claim.session == number)

    def _next_stamp(self, now: int) -> int:
        self.stamp = max(self.stamp + 1, now)
        return self.stamp

    def _look(self, now: int) -> None:
        """Let the claim clock run, ten times a second at most, and take back what lapsed sessions held."""
        if self.seen is not None:
            if 0 <= now - self.seen < BETWEEN_LOOKS:
                return
            self.clock += max(0, min(now - self.seen, self.gap))
        self.seen = now
        room = TAKEN_BACK_AT_ONCE
        lapsed = sorted((each.deadline, number) for number, each in self.sessions.items())
        for deadline, number in lapsed[:100]:
            if deadline <= self.clock and room > 0:
                room -= self._take_back(number, room, now)

    def _take_back(self, number: int, room: int, now: int) -> int:
        session = self.sessions[number]
        if not session.ended:
            session.ended = session.crashed = True
        others_live = any(each.deadline > self.clock for each in self.sessions.values())
        if not others_live:
            session.crashed = False  # nor is it one when everybody was away
        items = self._held(number)[:room]
        for item in items:
            claim = self.claims.pop(item)
            if not (session.crashed and self._crash(item, now)):
                self._put_back(item, claim.stood)
        if len(items) < room:
            del self.sessions[number]
        return len(items)

    def _crash(self, item: Item, now: int) -> bool:
        """Count a crash; return whether it parked the item."""
        failure = self.failures.get(item, Failure())
        crashes = failure.crashes + 1
        self.failures[item] = replace(failure, crashes=crashes)
        if crashes < 3 or item in self.pending:
            return False
        self._park(item, now, "crashes", f"its workers died {crashes} times")
        return True

    def _park(self, item: Item, now: int, reason: str, text: str) -> None:
        self.dead[item] = now
        self.failures[item] = replace(self.failures[item], failed_at=now, reason=reason, text=text)

    def _put_back(self, item: Item, stood: Now) -> None:
        """Stand again where it stood, or better; being pending now supersedes a delay."""
        entry = self.pending.get(item)
        newer = [entry] if isinstance(entry, Now) else []
        self.pending[item] = min([stood, *newer], key=lambda now: (-now.priority, now.since))

    # Consumers

    def turn(
        self,
        *,
        now: int,
        number: int,
        nonce: str,
        op: str,
        settlements: Sequence[Settlement],
        want: int,
        policy: Policy,
    ) -> Answer | None:
        """Settle and claim; None where the session is lost."""
        session = self._session(number, nonce)
        if session is not None and session.op == op:
            return self._answered_before(number, session, settlements)
        self._look(now)
        session = self._session(number, nonce)
        if session is None:
            return None
        fence = self._next_stamp(now)
        refused = [
            place
            for place, settlement in enumerate(settlements, 1)
            if not self._settle(now, number, settlement, policy)
        ]
        fates = self._fates(settlements)
        session.op, session.fence, session.refused = op, fence, refused
        if policy.fleet_concurrency is not None:
            want = min(want, policy.fleet_concurrency - len(self.claims))
        names, alone = self._claim(now, number, fence, want) if want > 0 and not self.paused else ([], False)
        return self._answer(session, alone, fates, names)

    def _answered_before(self, number: int, session: Session, settlements: Sequence[Settlement]) -> Answer:
        """Answer from what stands: nothing happens twice."""
        names = [item for item in self._held(number) if self.claims[item].fence == session.fence]
        alone = any(self._is_suspect(item) for item in names)
        return self._answer(session, alone, self._fates(settlements), names)

    def _answer(self, session: Session, alone: bool, fates: Sequence[str], names: Sequence[Item]) -> Answer:
        claimed = [(item, self.claims[item].stood) for item in names]
        failures = [self.failures.get(item) for item in names]
        return Answer(session.fence, alone, session.refused, fates, claimed, failures)

    def _claim(self, now: int, number: int, fence: int, want: int) -> tuple[list[Item], bool]:
        """Claim what stands before the first suspect; or it alone, by a session that holds nothing else."""
        self._promote(now, want)
        names = self.ready()[:want]
        suspects = [place for place, item in enumerate(names) if self._is_suspect(item)]
        alone = suspects[:1] == [0]
        if alone:
            names = [] if self._held(number) else names[:1]
        elif suspects:
            names = names[: suspects[0]]
        for item in names:
            stood = self.pending.pop(item)
            assert isinstance(stood, Now)
            self.claims[item] = Claim(number, fence, stood)
        return names, alone

    def _is_suspect(self, item: Item) -> bool:
        return self.failures.get(item, Failure()).crashes >= 2

    def _promote(self, now: int, want: int) -> None:
        """Make pending what is due, as of the time when it was."""
        due = sorted(
            (entry.due_ms, -entry.priority, item)
            for item, entry in self.pending.items()
            if isinstance(entry, Later) and entry.due_ms <= now // 1000
        )
        for due_ms, priority, item in due[: max(want, PROMOTED_AT_ONCE)]:
            self.pending[item] = Now(-priority, due_ms * 1000)

    def _fates(self, settlements: Sequence[Settlement]) -> list[str]:
        """Tell where the items stand whose claim did not end in success."""
        return [
            str(entry.due_ms) if isinstance(entry, Later) else "parked" if item in self.dead else "pending"
            for item in [each.item for each in settlements if each.outcome != "success"]
            for entry in [self.pending.get(item)]
        ]

    # Settlements

    def _settle(self, now: int, number: int, given: Settlement, policy: Policy) -> bool:
        """Settle one; return False where it is refused."""
        item, outcome = given.item, given.outcome
        if outcome == "limit":
            count = self._count_failure(item, now, given.text)
            self._defer(
                item, now + self.delay(given.limiter or policy.limiter, count, now), given.priority or 0
            )
            self.dead.pop(item, None)
            return True
        claim = self.claims.get(item)
        if claim is None or (claim.session, claim.fence) != (number, given.fence):
            return False
        del self.claims[item]
        priority = claim.stood.priority if given.priority is None else given.priority
        if outcome == "release":
            self._put_back(item, claim.stood)
        elif outcome in ("success", "after"):
            self.failures.pop(item, None)
            if outcome == "after" and given.limiter and not isinstance(self.pending.get(item), Now):
                self._defer(item, now + self.delay(given.limiter, 1, now), priority)
        elif outcome == "done":
            if item not in self.pending:
                self.failures.pop(item, None)
        else:
            self._fail(now, given, priority, policy)
        return True

    def _fail(self, now: int, given: Settlement, priority: int, policy: Policy) -> None:
        item = given.item
        count = self._count_failure(item, now, given.text)
        if given.outcome == "park" or (policy.max_retries is not None and count > policy.max_retries):
            if item not in self.pending:
                self._park(item, now, "terminal" if given.outcome == "park" else "retries", given.text)
            return
        due = now + self.delay(given.limiter or policy.limiter, count, now)
        if not isinstance(self.pending.get(item), Now):
            self._defer(item, due, priority)

    def _count_failure(self, item: Item, now: int, text: str) -> int:
        before = self.failures.get(item, Failure())
        self.failures[item] = Failure(
            before.count + 1, before.crashes, now, "-", (text or before.text).partition("\n")[0]
        )
        return before.count + 1

    def delay(self, limiter: Limiter, count: int, now: int) -> float:
        """Return the µs that a limiter says for the count-th failure; every bucket in it is charged."""
        return min(self._delay(limiter, count, now), TEN_YEARS)

    def _delay(self, limiter: Limiter, count: int, now: int) -> float:
        match limiter:
            case ("fixed", float() | int() as delay):
                return delay
            case ("exp", float() | int() as first, float() | int() as most):
                return min(first * 2.0 ** (count - 1), most)
            case ("fastslow", int() as fast, int() as slow, int() as attempts):
                return fast if count <= attempts else slow
            case ("maxof", *inner):
                return max([self._delay(each, count, now) for each in inner if isinstance(each, tuple)])
            case ("maxwait", tuple() as inner, int() as most):
                return min(self._delay(inner, count, now), most)
            case ("bucket", float() | int() as rate, int() as burst):
                return self._reserve(rate, burst, now)
        raise ValueError(limiter)

    def _reserve(self, rate: float, burst: int, now: int) -> float:
        """Take a token, in advance if there is none (golang.org/x/time/rate Reserve)."""
        if rate == math.inf:
            return 0
        if burst < 1:
            return math.inf
        tokens, at = self.buckets.get((rate, burst), (float(burst), now))
        tokens = min(float(burst), tokens + max(0, now - at) / 1_000_000 * rate) - 1
        self.buckets[rate, burst] = tokens, now
        if tokens >= 0:
            return 0
        return -tokens / rate * 1_000_000 if rate else math.inf

    # The informer and the inspector

    def commit(
        self,
        *,
        now: int,
        stream: str,
        epoch: str,
        replaces: str,
        after: str,
        new: str,
        batch: str,
        about: str,
        priority: int,
        keep_pending: bool,
        items: Sequence[Item],
        known: dict[str, str],
        gone: Sequence[str],
    ) -> list[object]:
        """Add a batch and move a stream from one position to the next, or do nothing."""
        stored = self.streams.get(stream)
        if stored is not None:
            if int(epoch) < int(stored.epoch) and replaces != stored.epoch:
                return [b"FENCED", stored.epoch.encode()]
            if batch == stored.batch:
                return [b"OK", 0]
        if after != (stored.batch if stored else ""):
            return [b"MISMATCH", stored.position.encode() if stored else b""]
        added = self._enqueue(now, items, priority, keep_pending) if items else 0
        self.known |= known
        for name in gone:
            self.known.pop(name, None)
        self.streams.pop(stream, None)
        if new:
            self.streams[stream] = Stream(epoch, new, batch, about)
        return [b"OK", added]

    def forget(self, items: Sequence[Item]) -> int:
        """Drop the failure records of living items; return how many there were."""
        return sum(item not in self.dead and self.failures.pop(item, None) is not None for item in items)

    def requeue(self, now: int, state: str, items: Sequence[Item]) -> int:
        """Drop delay, failure record and death; return how many items changed."""
        changed = 0
        for item in [item for item in items if self._is_in(item, state)]:
            failed = self.failures.pop(item, None) is not None
            waits = isinstance(self.pending.get(item), Later)
            dead = item in self.dead
            if waits or dead:
                self._enqueue(now, [item], -900 if waits else 0)  # a delayed item keeps its own priority
            changed += failed or waits or dead
        return changed

    def delete(self, state: str, items: Sequence[Item]) -> int:
        """Drop what is pending or dead; return how many items changed."""
        changed = 0
        for item in [item for item in items if self._is_in(item, state)]:
            if item in self.pending or item in self.dead:
                self.pending.pop(item, None)
                self.dead.pop(item, None)
                if item not in self.claims:
                    self.failures.pop(item, None)
                changed += 1
        return changed

    def _is_in(self, item: Item, state: str) -> bool:
        entry, claimed = self.pending.get(item), item in self.claims
        return {
            "": True,
            "ready": isinstance(entry, Now) and not claimed,
            "dirty": isinstance(entry, Now) and claimed,
            "delayed": isinstance(entry, Later),
            "processing": claimed,
            "dead": item in self.dead,
        }[state]
