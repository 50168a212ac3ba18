"""Random calls of public handles, on a Queue and on a MemoryQueue side by side: both answer alike."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from distq.errors import RetryAfter, TerminalError
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.testing.fake_clock import FakeClock
from distq.workqueue.interface import Result, Settlement
from distq.workqueue.memory import MemoryQueue
from distq.workqueue.memory.entries import FailureHistory
from distq.workqueue.outcome import outcome_of
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import (
    BucketRateLimiter,
    Failure,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
)
from distq.workqueue.request import Request
from tests.workqueue.conftest import beat
from tests.workqueue.draws import SOME, any_of, priority

KEYS = SOME[:6]
OUTCOMES = (
    None,
    ValueError("no"),
    Result(requeue_after=0.5),
    Result(requeue_after=0, priority=7),
    Result(requeue_after=0.5, keep_failures=True),
    RetryAfter(2.0),
    TerminalError("never"),
)
DELAYS = (0.5, 0.0, -1.0, 0.0004, 60.0, 1e15, math.inf)


def _slow_by_error(failure: Failure) -> float:
    return 0.0 if failure.error is None else 3.0


OPTIONS: Sequence[dict[str, Any]] = (
    {"max_retries": 2, "revive_dead_after": 60},
    {"rate_limiter": MaxOfRateLimiter(ItemExponentialFailureRateLimiter(), BucketRateLimiter(2, 3))},
    {"rate_limiter": _slow_by_error, "max_length": 6},
)
"""What the handles are made with, one after the other."""

any_handle = any_of(*range(len(OPTIONS)))
key = st.sampled_from([items[0] for items in KEYS])


@dataclass(frozen=True)
class Claimed:
    """One claim: the request in Redis and that in memory."""

    redis: Request
    memory: Request


class Pair:
    """A handle of each kind, made alike."""

    def __init__(self, redis: Queue, memory: MemoryQueue) -> None:
        self.redis = redis
        self.memory = memory
        self.cancelled: tuple[list[str], list[str]] = ([], [])
        redis.on_cancel = lambda request: self.cancelled[0].append(request.key)
        memory.on_cancel = lambda request: self.cancelled[1].append(request.key)

    def ask(self, call: Callable[[Any], Any]) -> Any:
        """Call both; return what both answered, or the error that both raised."""
        return self.compare(_answer(call, self.redis), _answer(call, self.memory))

    def compare(self, redis: Any, memory: Any) -> Any:
        """Return the answer that both gave."""
        assert redis == memory, f"Redis: {redis}, memory: {memory}"
        return redis


def _answer(call: Callable[[Any], Any], queue: Queue | MemoryQueue) -> Any:
    try:
        return call(queue)
    except Exception as error:  # noqa: BLE001  # both must raise the same
        return type(error), str(error), getattr(error, "added", None)


class HandleMachine(RuleBasedStateMachine):
    """Three handles of each queue, at one time, which only rules move."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        connection.execute("FLUSHALL")
        self.connection = connection
        self.clock = FakeClock(1_795_000_000)
        self.first: MemoryQueue | None = None
        self.claims: list[Claimed] = []
        self._send_time()
        self.pairs = [self._made(place) for place in range(len(OPTIONS))]

    def _made(self, place: int) -> Pair:
        options = OPTIONS[place]
        memory = MemoryQueue("foos", shares=self.first, clock=self.clock, **options)
        self.first = self.first or memory
        return Pair(Queue("foos", self.connection, **options), memory)

    def _send_time(self) -> None:
        self.connection.server_time = round(self.clock.now() * 1_000_000)

    def teardown(self) -> None:
        """End the sessions, and their threads."""
        for pair in self.pairs:
            pair.redis.close()
        self.connection.server_time = 0

    @invariant()
    def both_look_alike(self) -> None:
        """Compare what can be seen of all."""
        self.pairs[0].ask(lambda queue: queue.depth())
        for pair in self.pairs:
            assert pair.redis.held() == pair.memory.held()
            assert sorted(pair.cancelled[0]) == sorted(pair.cancelled[1])
        for claim in self.claims:
            assert claim.redis.cancelled.is_set() == claim.memory.cancelled.is_set()

    # Producers

    @rule(who=any_handle, keys=any_of(*SOME[:24], ("", "a"), ("b\n",)), priority=any_of(0, 5, -900, 901))
    def add(self, who: int, keys: Sequence[str], priority: int) -> None:
        """Add keys, some of which are none."""
        self.pairs[who].ask(lambda queue: queue.add(*keys, priority=priority))

    @rule(who=any_handle, keys=st.sampled_from(KEYS), delay=any_of(*DELAYS, math.nan), priority=priority)
    def add_after(self, who: int, keys: Sequence[str], delay: float, priority: int) -> None:
        """Add keys for later."""
        self.pairs[who].ask(lambda queue: queue.add(*keys, priority=priority, after=delay))

    @rule(who=any_handle, key=key)
    def add_rate_limited(self, who: int, key: str) -> None:
        """Count a failure."""
        self.pairs[who].ask(lambda queue: queue.add_rate_limited(key))

    @rule(who=any_handle, key=key)
    def forget(self, who: int, key: str) -> None:
        """Forget failures."""
        self.pairs[who].ask(lambda queue: queue.forget(key))

    @rule(who=any_handle, key=key)
    def look(self, who: int, key: str) -> None:
        """Look at one key."""
        self.pairs[who].ask(lambda queue: (queue.num_requeues(key), queue.is_dirty(key)))

    # Consumers

    @rule(who=any_handle)
    def get(self, who: int) -> None:
        """Claim an item, if there is one."""
        pair = self.pairs[who]
        redis, memory = (_answer(lambda queue: queue.get(0), queue) for queue in (pair.redis, pair.memory))
        if isinstance(redis, Request) and isinstance(memory, Request):
            self._note(redis, memory)
        else:
            pair.compare(redis, memory)

    def _note(self, redis: Request, memory: Request) -> None:
        assert (redis.key, redis.attempt, redis.priority) == (memory.key, memory.attempt, memory.priority)
        assert abs((redis.enqueued_at or 0) - (memory.enqueued_at or 0)) < 0.001
        assert all(
            redis.fence > each.redis.fence and memory.fence > each.memory.fence for each in self.claims
        )
        self.claims.append(Claimed(redis, memory))

    @rule(
        who=any_handle,
        back=any_of(0, 1, 2, 3),
        how=any_of("settle", "done", "release"),
        outcome=any_of(*OUTCOMES),
    )
    def end(self, who: int, back: int, how: str, outcome: Result | BaseException | None) -> None:
        """End one of the last claims, now and then a second time or by the wrong handle."""
        for claim in self.claims[-1 - back :][:1]:
            pair = self.pairs[who]
            more = (outcome,) if how == "settle" else ()
            pair.compare(
                getattr(pair.redis, how)(claim.redis, *more), getattr(pair.memory, how)(claim.memory, *more)
            )

    @rule(
        who=any_handle,
        outcomes=st.lists(st.sampled_from(OUTCOMES), max_size=3),
        want=any_of(0, 1, 3),
        later=st.booleans(),
    )
    def turn(
        self, who: int, outcomes: Sequence[Result | BaseException | None], want: int, *, later: bool
    ) -> None:
        """Settle what the handle holds, and claim, in one step; the claims may come ``later``."""
        pair = self.pairs[who]
        held = [claim for claim in self.claims if not claim.redis.cancelled.is_set()][-3:]
        chosen = list(zip(held, map(outcome_of, outcomes), strict=False))
        claimed: list[Request] = []
        redis = pair.redis.turn(
            [Settlement(claim.redis, outcome) for claim, outcome in chosen],
            want,
            claimed.extend if later else None,
        )
        if later:
            pair.redis.turn([], 0, claimed.extend)
        claimed += redis.requests
        memory = pair.memory.turn([Settlement(claim.memory, outcome) for claim, outcome in chosen], want)
        pair.compare(list(redis.dispositions), list(memory.dispositions))
        pair.compare(redis.promoted, memory.promoted)
        pair.compare([each.key for each in claimed], [each.key for each in memory.requests])
        claims = len(self.claims)
        for one, other in zip(claimed, memory.requests, strict=True):
            known, self.claims = self.claims, self.claims[:claims]  # one turn, one fence
            self._note(one, other)
            self.claims = [*known, self.claims[-1]]

    @rule(limit=any_of(None, None, 1, 2, 0))
    def limit_fleet(self, limit: int | None) -> None:
        """Limit what all hold together."""
        for pair in self.pairs:
            pair.redis.fleet_concurrency = pair.memory.fleet_concurrency = limit

    # Life and death

    @rule(who=any_handle)
    def close(self, who: int) -> None:
        """Give back what is held."""
        self.pairs[who].ask(lambda queue: queue.close())

    @rule(who=any_handle, drain=st.booleans())
    def shut_down(self, who: int, drain: bool) -> None:
        """Shut a handle down; it can be asked further on."""
        pair = self.pairs[who]
        pair.ask(lambda queue: queue.shut_down_with_drain(0) if drain else queue.shut_down())
        pair.ask(lambda queue: queue.shutting_down)

    @rule(who=any_handle)
    def replace(self, who: int) -> None:
        """Close a handle and make another."""
        self.close(who)
        self.pairs[who] = self._made(who)

    @rule(who=any_handle)
    def lapse(self, who: int) -> None:
        """Let a handle be silent for the claim duration, while the others live."""
        lapsing, *living = self.pairs[who:] + self.pairs[:who]
        for pair in living * 2:  # the first turn may find its session lost, the second opens another
            pair.ask(lambda queue: list(queue.turn([], 0).requests))
        if not any(map(_has_session, living)):
            return  # it would not be noticed
        session, state = lapsing.memory._session, lapsing.memory._engine.state
        number, held = session._number, [(each.key, each.fence) for each in session._held.values()]
        for _ in range(4):
            self._step(10.0, living)
            if not self._is_in_redis(lapsing):
                lapsing.memory.abandon()  # at the same time, since items that die of it may be revived
        self._beat([lapsing])
        if number is not None:  # its process lives: it says so
            state.sessions.forgive(number, lapsing.memory._engine.now(), held)

    def _is_in_redis(self, pair: Pair) -> bool:
        number = pair.redis._session.id.partition("-")[0]
        return self.connection.execute("ZSCORE", queue_key("foos", "sessions"), number) is not None

    @rule(keys=st.sampled_from(KEYS))
    def suspect(self, keys: Sequence[str]) -> None:
        """Let two sessions have died of keys, which takes long to come about."""
        assert self.first is not None
        items, now = self.first._engine.state.items, self.first._engine.now()
        fences = now - 2, now - 1  # no claim of now has them, which may be forgiven
        for key in keys:
            if key in items.pending or key in items.claims:
                items.failures[key] = FailureHistory(items.failures.get(key, FailureHistory()).count, fences)
                record = f"{items.failures[key].count} 2 0 -@{fences[0]},{fences[1]} "
                self.connection.execute("HSET", queue_key("foos", "failures"), key, record)

    # Time

    @rule(seconds=any_of(0.5, 0.001, 5.0, 61.0, 3600.0))
    def pass_time(self, seconds: float) -> None:
        """Let time pass, with heartbeats."""
        self._step(seconds, self.pairs)

    def _step(self, seconds: float, living: Sequence[Pair]) -> None:
        self.clock.step(seconds)
        self._send_time()
        self._beat(living)

    def _beat(self, pairs: Sequence[Pair]) -> None:
        for pair in pairs:
            if _has_session(pair):
                beat(pair.redis)


def _has_session(pair: Pair) -> bool:
    return bool(pair.redis._session.id)
