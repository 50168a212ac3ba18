"""Random calls of several processes that die, come late and repeat themselves, on a queue and its model."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from tests.workqueue.model import Answer, Item, Later, Limiter, Policy, Settlement
from tests.workqueue.side_by_side import SideBySide

T = TypeVar("T")

SECOND = 1_000_000
CLAIM_DURATION = 30 * SECOND
FEW = tuple(b"ns/item-%d" % n for n in range(12))
MANY = tuple(b"ns/item-%d" % n for n in range(300))
POISON = FEW[:2]
BACKOFF: Limiter = ("maxof", ("exp", 5000, 1000 * SECOND), ("bucket", 10, 3))
LIMITERS: Sequence[Limiter | None] = (
    None,
    None,
    ("fixed", 0),
    ("fixed", 250_000),
    ("fixed", 10**18),
    ("fastslow", 5000, 10 * SECOND, 2),
    ("maxwait", ("bucket", 0.5, 1), 2 * SECOND),
    ("bucket", float("inf"), 0),
)
STATES = ("", "", "ready", "dirty", "delayed", "processing", "dead")


@dataclass(eq=False)
class Handle:
    """What one process knows of its session."""

    nonce: str
    number: int = 0
    turns: int = 0
    held: dict[Item, int] = field(default_factory=dict)
    repeat: Callable[[], object] | None = None

    def resend(self) -> None:
        """Make the last call again, as if its reply had been lost."""
        if self.repeat is not None:
            self.repeat()


class RandomCalls:
    """Makes one random call after the other; the seed decides all."""

    def __init__(self, connection: Connection, seed: int, items: Sequence[Item] = FEW) -> None:
        self.random = random.Random(seed)
        self.both = SideBySide(QueueStore(connection, f"random-{seed}"), CLAIM_DURATION)
        self.items = items
        self.seen: Counter[str] = Counter()
        self.nonces = 0
        self.batches = 0
        self.fleet_concurrency: int | None = None
        self.late: list[Settlement] = []
        self.handles = [self._opened() for _ in range(4)]

    def run(self, steps: int) -> None:
        """Make some calls and compare after each."""
        names, weights = zip(*_CALLS.items(), strict=True)
        chosen = self.random.choices(names, weights, k=steps)
        for step, name in enumerate(chosen):
            try:
                self._let_time_pass()
                handle = self.random.choice(self.handles)
                getattr(self, name)(handle)
                if self.random.random() < 0.1:
                    self.random.choice(self.handles).resend()
                self.both.compare()
            except AssertionError as error:
                raise AssertionError(f"step {step}, {name}: {error}") from error

    def drain(self) -> None:
        """Work everything off; then promise 7 holds exactly."""
        both, model = self.both, self.both.model
        both.pause(False)
        while model.pending or model.claims or len(model.sessions) != len(self.handles):
            due = [entry.due_ms * 1000 for entry in model.pending.values() if isinstance(entry, Later)]
            both.now = max(both.now + CLAIM_DURATION // 3, min(due, default=0))
            for handle in list(self.handles):
                self._beat(handle)
            for handle in list(self.handles):
                settlements = [Settlement(item, fence) for item, fence in handle.held.items()]
                self._turn(handle, settlements, 50, fleet=None)
            both.compare()
        for handle in self.handles:
            assert both.close(handle.number, handle.nonce) == 1, "an open session is not there"
        both.compare()
        left = {name: both.store.read((command, name))[0] for name, command in _SIZES.items()}
        dead = left.pop("dead")
        assert left.pop("failures") == dead, "failure records of items that are no more"
        assert left.pop("wake") <= 1
        assert not any(left.values()), left
        (fields,) = both.store.read(("HKEYS", "meta"))
        own = {field for field in fields if not field.startswith((b"bucket ", b"cover"))}
        assert own == {b"layout", b"stamp", b"seen", b"clock"}

    # Time

    def _let_time_pass(self) -> None:
        chance = self.random.random()
        if chance < 0.93:
            steps = [1, 50, 1000, 4000, 20_000, 150_000, SECOND]
        elif chance < 0.985:
            steps = [6 * SECOND, 12 * SECOND, 3600 * SECOND]
        else:
            steps = [-1, -1000, -2 * SECOND, -3600 * SECOND]
        self.both.now += self.random.choice(steps)

    # Calls of a process

    def add(self, handle: Handle) -> None:
        """Add a few items."""
        items, priority, length = self._some(4), self._priority(), self._max_length()
        self._do(handle, lambda: self.both.add(items, priority, length))

    def add_after(self, handle: Handle) -> None:
        """Add a few items for later."""
        items, priority, length = self._some(3), self._priority(), self._max_length()
        delay = self.random.choice([1, 5000, 700_000, 30 * SECOND])
        self._do(handle, lambda: self.both.add_after(items, priority, delay, length))

    def turn(self, handle: Handle) -> None:
        """Settle some claims, some of them wrongly, and ask for new ones."""
        if self.random.random() < 0.4 and any(item in handle.held for item in POISON):
            self.die(handle)
            return
        settlements = self._some_settlements(handle)
        want = self.random.choice([0, 1, 2, 5] if self.items is FEW else [0, 5, 100, 250])
        self._turn(handle, settlements, want, self.fleet_concurrency)

    def wake(self, handle: Handle) -> None:
        """Wake up by a token, and look for work; with another session where this one was lost."""
        if self.both.take_token():
            self._turn(handle, [], 1, self.fleet_concurrency)
            if handle not in self.handles:
                self._turn(self.handles[-1], [], 1, self.fleet_concurrency)

    def beat(self, handle: Handle) -> None:
        """Send a heartbeat."""
        self._beat(handle)

    def die(self, handle: Handle) -> None:
        """Die without a word, and come back as another; what was held is settled too late."""
        self.late += [Settlement(item, fence, "retry") for item, fence in handle.held.items()]
        self.handles.remove(handle)
        self.handles.append(self._opened())

    def leave(self, handle: Handle) -> None:
        """Close the session, whatever is held, and open another."""
        self._do(handle, lambda: self.both.close(handle.number, handle.nonce))
        self.die(handle)

    def outage(self, _: Handle) -> None:
        """Let everybody be silent for long; a process of the past is the first to look."""
        for _look in range(4):
            self.both.now += CLAIM_DURATION // 3
            self.both.heartbeat(1, "nobody", "")

    # Calls of people and of the informer

    def forget(self, handle: Handle) -> None:
        """Forget failures."""
        items = self._some(2)
        self._do(handle, lambda: self.both.forget(items))

    def requeue(self, handle: Handle) -> None:
        """Requeue some items."""
        items, state = self._some(3), self.random.choice(STATES)
        self._do(handle, lambda: self.both.requeue(state, items))

    def delete(self, handle: Handle) -> None:
        """Delete some items."""
        items, state = self._some(2), self.random.choice([each for each in STATES if each != "processing"])
        self._do(handle, lambda: self.both.delete(state, items))

    def pause(self, _: Handle) -> None:
        """Pause for a while, or limit the fleet."""
        if self.random.random() < 0.5:
            self.both.pause(self.random.random() < 0.4)
        else:
            self.fleet_concurrency = self.random.choice([None, None, 0, 1, 3, 6])

    def commit(self, handle: Handle) -> None:
        """Commit a batch of a stream, now and then as a leader of the past or at another position."""
        stored = self.both.model.streams.get("pods")
        epoch = int(stored.epoch) if stored else 9
        epoch += self.random.choice([0, 0, 0, 0, 1, 95, -1])
        right = stored.position if stored else ""
        self.batches += 1
        inputs = {
            "epoch": str(max(1, epoch)),
            "replaces": stored.epoch if stored and self.random.random() < 0.1 else "",
            "after": (stored.batch if stored else "") if self.random.random() < 0.9 else "b77",
            "new": self.random.choice([right or "1", str(1000 + self.batches), "!", ""]),
            "batch": f"b{self.batches}",
            "about": '{"leader":"me too"}',
            "priority": self._priority(),
            "keep_pending": self.random.random() < 0.5,
            "items": self._some(4),
            "known": {f"pod-{self.random.randrange(5)}": str(self.batches) for _ in range(2)},
            "gone": [f"pod-{self.random.randrange(5)}"],
        }
        (kind, *_) = self._do(handle, lambda: self.both.commit(**inputs))
        self.seen[kind.decode()] += 1

    # How they are made

    def _opened(self) -> Handle:
        self.nonces += 1
        handle = Handle(f"nonce-{self.nonces}")
        handle.number = self._do(handle, lambda: self.both.open(handle.nonce))
        if self.random.random() > 0.1:
            handle.repeat = None  # a second session is opened, holds nothing, and lapses
        return handle

    def _do(self, handle: Handle, call: Callable[[], T]) -> T:
        handle.repeat = call
        return call()

    def _beat(self, handle: Handle) -> None:
        worker = f"worker {self.random.randrange(9)}"
        if self._do(handle, lambda: self.both.heartbeat(handle.number, handle.nonce, worker)) is None:
            self.seen["lost heartbeat"] += 1
            self.die(handle)

    def _turn(self, handle: Handle, settlements: Sequence[Settlement], want: int, fleet: int | None) -> None:
        handle.turns = turns = handle.turns + 1
        answer = self._do(
            handle,
            lambda: self.both.turn(
                number=handle.number,
                nonce=handle.nonce,
                op=turns,
                settlements=settlements,
                want=want,
                policy=Policy(BACKOFF, 4, fleet),
            ),
        )
        if answer is None:
            self.seen["lost"] += 1
            self.die(handle)
        else:
            self._note(handle, answer, settlements)

    def _note(self, handle: Handle, answer: Answer, settlements: Sequence[Settlement]) -> None:
        for each in settlements:
            if handle.held.get(each.item) == each.fence and each.outcome != "limit":
                del handle.held[each.item]
        handle.held.update(dict.fromkeys([item for item, _ in answer.claimed], answer.fence))
        self.seen["claims"] += len(answer.claimed)
        self.seen["refused"] += len(answer.refused)
        self.seen["suspect alone"] += answer.alone and len(answer.claimed) == 1
        self.seen["suspect left to others"] += answer.alone and not answer.claimed
        for failure in self.both.model.failures.values():
            self.seen[failure.reason] += 1

    def _some(self, most: int) -> list[Item]:
        if self.items is MANY:
            most *= 50
        return self.random.sample(self.items, self.random.randint(1, most))

    def _priority(self) -> int:
        return self.random.choice([0, 0, 0, 0, 5, -100, 900, -900])

    def _max_length(self) -> int | None:
        return self.random.choice([None, None, None, 1, 6])

    def _some_settlements(self, handle: Handle) -> list[Settlement]:
        mine = list(handle.held.items())
        self.random.shuffle(mine)
        chosen = [self._settlement(item, fence) for item, fence in mine[: self.random.randint(0, 5)]]
        if self.items is MANY and self.random.random() < 0.5:
            chosen += [Settlement(item, fence) for item, fence in mine[5:240]]
        if self.late and self.random.random() < 0.15:
            chosen.append(self.late.pop(self.random.randrange(len(self.late))))
        if mine and self.random.random() < 0.1:
            item, fence = self.random.choice(mine)
            chosen.append(self._settlement(item, fence - 1))
        if chosen and self.random.random() < 0.1:
            chosen.append(
                replace_outcome(self.random.choice(chosen), self.random.choice(["success", "retry"]))
            )
        if self.random.random() < 0.1:
            backoff = Settlement(
                self.random.choice(self.items),
                0,
                "limit",
                self.random.choice(LIMITERS),
                self._priority(),
            )
            chosen.append(backoff)
        return [each for each in chosen if each.outcome == "success"] + [
            each for each in chosen if each.outcome != "success"
        ]

    def _settlement(self, item: Item, fence: int) -> Settlement:
        outcome = self.random.choice(
            ["success", "success", "done", "retry", "retry", "after", "release", "park"]
        )
        priority = self.random.choice([None, None, -100, 7])
        match outcome:
            case "retry":
                return Settlement(item, fence, outcome, self.random.choice(LIMITERS), priority, "boom\ntrace")
            case "after":
                return Settlement(item, fence, outcome, ("fixed", self.random.choice([0, 9000])), priority)
            case "park":
                return Settlement(item, fence, outcome, text="no\ntrace")
        return Settlement(item, fence, outcome)


def replace_outcome(settlement: Settlement, outcome: str) -> Settlement:
    """Return the same claim settled in another way."""
    return settlement._replace(outcome=outcome, limiter=None, priority=None)


_CALLS = {
    "add": 20,
    "add_after": 8,
    "turn": 42,
    "wake": 4,
    "beat": 12,
    "die": 1.5,
    "leave": 1,
    "outage": 0.5,
    "forget": 1.5,
    "requeue": 2,
    "delete": 1.5,
    "pause": 2.5,
    "commit": 4,
}
_SIZES = {
    **dict.fromkeys(("ready", "dirty", "processing", "delayed", "dead", "sessions"), "ZCARD"),
    **dict.fromkeys(("claims", "failures", "workers"), "HLEN"),
    "wake": "LLEN",
}
