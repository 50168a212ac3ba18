"""What is compared: distq's queue, and the floor, the least that Redis must do for the same promises.

The floor deduplicates, and keeps an item that is added again while it is processed; nothing else: no
crash, no delay, no failure, no waiting consumer, no reader. Both are driven in the same way.
"""

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any, Protocol

from distq.redisio.connection import Connection
from distq.redisio.keys import LAYOUT
from distq.redisio.queue_store import QueueStore
from distq.workqueue.engine import TurnSettings
from distq.workqueue.options import QueueOptions

_FLOOR_ADD = """
local queue, dirty, processing, sequence = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local newly_dirty = redis.call('SADD', dirty, unpack(ARGV))
local in_process = redis.call('ZMSCORE', processing, unpack(ARGV))
local last = redis.call('INCRBY', sequence, #ARGV)
local push, n = { 'ZADD', queue, 'NX' }, 3
for i = 1, #ARGV do
  if not in_process[i] then
    push[n + 1], push[n + 2] = last + i, ARGV[i]
    n = n + 2
  end
end
if n > 3 then redis.call(unpack(push)) end
return newly_dirty
"""

_FLOOR_TURN = """
local queue, dirty, processing = KEYS[1], KEYS[2], KEYS[3]
local want = table.remove(ARGV, 1)
if #ARGV > 0 then
  redis.call('ZREM', processing, unpack(ARGV))
  local again = redis.call('SMISMEMBER', dirty, unpack(ARGV))
  local push, n = { 'ZADD', queue }, 2
  for i = 1, #ARGV do
    if again[i] == 1 then
      push[n + 1], push[n + 2] = 0, ARGV[i]
      n = n + 2
    end
  end
  if n > 2 then redis.call(unpack(push)) end
end
local popped = redis.call('ZPOPMIN', queue, want)
if #popped == 0 then return popped end
local names, hold, clean = {}, { 'ZADD', processing }, { 'SREM', dirty }
for i = 1, #popped / 2 do
  local item = popped[2 * i - 1]
  names[i], hold[2 * i + 1], hold[2 * i + 2], clean[i + 2] = item, 1, item, item
end
redis.call(unpack(hold))
redis.call(unpack(clean))
return names
"""


_WAKE = "\nredis.call('RPUSH', KEYS[5], 1)\n"

MAX_CLOCK_STEP = 10_000_000
"""How far one call may advance the claim clock, µs, as with the default claim duration."""


class Subject(Protocol):
    """A queue that can be driven by the benchmark."""

    def add(self, keys: Sequence[str]) -> None:
        """Add keys in one call."""

    def turn(self, want: int) -> int:
        """Settle all that the turn before claimed, and claim up to ``want``; return how many."""


class Floor:
    """The least that Redis must do."""

    def __init__(self, connection: Connection, name: str = "floor") -> None:
        self._connection = connection
        self._keys = [f"{name}:{structure}" for structure in ("queue", "dirty", "processing", "sequence")]
        self._held: list[Any] = []

    def add(self, keys: Sequence[str]) -> None:
        """Add keys in one call."""
        self._run(_FLOOR_ADD, keys)

    def turn(self, want: int) -> int:
        """Settle all that the turn before claimed, and claim up to ``want``; return how many."""
        self._held = self._run(_FLOOR_TURN, [want, *self._held])
        return len(self._held)

    def add_and_wake(self, key: str, wake: str) -> None:
        """Add a key, and push what a sleeping worker pops, in one call."""
        self._run(_WAKE + _FLOOR_ADD, [key], wake)

    def claim_one(self) -> str:
        """Settle what the turn before claimed, and claim a key; return it, or "" where there is none."""
        return self._held[0].decode() if self.turn(1) else ""

    def _run(self, script: str, arguments: Sequence[Any], *more_keys: str) -> Any:
        sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        keys = *self._keys, *more_keys
        return self._connection.evaluate(script, sha, [len(keys), *keys, *arguments])


class Consumer:
    """One session of a queue, whose scripts are called as directly as those of the floor."""

    def __init__(
        self, store: QueueStore, claim_duration: float = 3600.0, *, limit: int | None = None
    ) -> None:
        self._store = store
        self._turns = count(1)
        options = QueueOptions(max_retries=10)
        self._inputs = TurnSettings(options, fleet_concurrency_per_flow=limit).inputs()
        nonce, duration = secrets.token_urlsafe(16), int(claim_duration * 1e6)
        self.session = store.run(
            "open",
            layout=LAYOUT,
            nonce=nonce,
            claim_duration=duration,
            max_clock_step=MAX_CLOCK_STEP,
            worker="{}",
        )
        self.fence = 0
        self._last_turn = "- -"

    def turn(self, want: int, settled: Sequence[Any] = (), others: Sequence[Sequence[Any]] = ()) -> list[Any]:
        """Settle items of the turn before, others as (item, outcome, limiter, text), and claim some."""
        settlements = [word for item in settled for word in (item, self.fence)]
        for item, outcome, limiter, text in others:
            settlements += (item, self.fence, outcome, limiter, "", text)
        reply = self._store.run(
            "turn",
            session=self.session,
            op=(op := next(self._turns)),
            after=self._last_turn,
            want=want,
            n_ok=len(settled),
            settlements=settlements,
            **self._inputs,
        )
        self.fence = reply[0]
        self._last_turn = f"{op} {int(self.fence)}"
        return list(reply[5][::2])


class Distq:
    """distq, with everything on."""

    def __init__(
        self,
        connection: Connection,
        name: str = "distq",
        store: QueueStore | None = None,
        *,
        limit: int | None = None,
    ) -> None:
        self.store = store or QueueStore(connection, name)
        self.consumer = Consumer(self.store, limit=limit)
        self._held: list[Any] = []

    def add(self, keys: Sequence[str]) -> None:
        """Add keys in one call."""
        self.store.run("add", priority=0, max_length="", items=keys)

    @property
    def held(self) -> list[bytes]:
        """Return what the last turn claimed."""
        return self._held

    def turn(self, want: int) -> int:
        """Settle all that the turn before claimed, and claim up to ``want``; return how many."""
        self._held = self.consumer.turn(want, self._held)
        return len(self._held)

    def crowd(self, items: int = 100) -> None:
        """Have other items of every kind: delayed, failed, dead, held by another and added again."""
        kinds = ("waits", "fails", "died", "again")
        waits, fails, died, again = ([f"{kind}-{number}" for number in range(items)] for kind in kinds)
        other = Consumer(self.store)
        for some in (fails, died, again):
            self.add(some)
            other.turn(items)
            if some is fails:
                other.turn(0, others=[(item, "retry", "fixed 3600000000", "boom") for item in fails])
            elif some is died:
                other.turn(0, others=[(item, "park", "", "no use") for item in died])
        self.add(again)
        self.store.run("add_after", priority=0, max_length="", delay=3_600_000_000, items=waits)


def new_keys() -> Iterator[str]:
    """Yield keys of 20 bytes that were not there before."""
    return (f"default/pod-{number:08}" for number in count())


def fill(subject: Subject, keys: Iterator[str], items: int) -> None:
    """Add many keys, in batches."""
    for start in range(0, items, 1000):
        subject.add(list(islice(keys, min(1000, items - start))))
