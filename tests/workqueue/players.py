"""Several processes that share a queue and its specification: they die, come late and repeat themselves."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore
from distq.workqueue.memory.entries import Answer, Ending, Item, Policy, WentBack
from tests.workqueue.side_by_side import STREAM, SideBySide, max_clock_step_of

T = TypeVar("T")

SECOND = 1_000_000
CLAIM_DURATIONS = (30 * SECOND, 30 * SECOND, 12 * SECOND, 45 * SECOND)
LIMITER = f"exp 5000 {1000 * SECOND} bucket 10.0 3 maxof 2"
MAX_RETRIES = 2


class Kind(NamedTuple):
    """How a claim is settled; ``wrong``: twice, or by a fence that is not its own."""

    outcome: str
    limiter: str = ""
    priority: int | None = None
    wrong: str = ""


class Batch(NamedTuple):
    """A commit, relative to the stream's position."""

    items: Sequence[Item]
    priority: int = 0
    keep_pending: bool = False
    delay: int = 0
    epochs_on: int = 0
    replaces: bool = False
    follows: bool = True
    new: str = "next"
    unrouted: Sequence[Item] = ()
    routed: Sequence[Item] = ()
    parked_as: str = ""
    reports: bool = False


@dataclass(eq=False)
class Player:
    """What one process knows of its session."""

    nonce: str
    claim_duration: int
    number: int = 0
    turns: int = 0
    last_turn: str = "- -"
    held: dict[Item, int] = field(default_factory=dict)
    repeat: Callable[[], object] | None = None

    def describe(self) -> str:
        """Return what its process says of itself; now and then it cannot be read, or it stops."""
        if self.turns % 7 == 0:
            return f"worker {self.turns}"
        settled = self.turns // 3  # not every turn settles something, and each claims
        about: dict[str, object] = {"done": 2 * settled, "failed": settled // 2}
        if self.turns % 4:  # as 0.1.0 says nothing of them
            about["waiting"] = f"a{3 * self.turns}m{self.turns // 2 + 1}"
            about["working"] = f"c{settled}z1" if settled else "-"
        return json.dumps(about | ({} if self.turns % 5 else {"stopping": True}))


class Players:
    """Four processes at a time; ``seen`` counts what happened to them."""

    def __init__(self, connection: Connection, seen: Counter[str]) -> None:
        connection.server_time = 0
        connection.execute("FLUSHALL")
        self.both = SideBySide(QueueStore(connection, "random"))
        self.seen = seen
        self.fleet_concurrency: int | None = None
        self.revive_after: int | None = None
        self.fleet_concurrency_per_flow: int | None = None
        self._nonces = 0
        self._batches = 0
        self._late: list[Ending] = []
        self.all = [self._opened(place) for place in range(len(CLAIM_DURATIONS))]
        self._before = self.all.copy()

    def _opened(self, place: int) -> Player:
        self._nonces += 1
        player = Player(f"nonce-{self._nonces}", CLAIM_DURATIONS[place])
        player.number = self.both.open(player.nonce, player.claim_duration)
        return player

    def call(self, who: int, call: Callable[[], T]) -> T:
        """Let a process call something that it may repeat."""
        self.all[who].repeat = call
        return call()

    def resend(self, who: int) -> None:
        """Make the last call again, as if its reply had been lost."""
        repeat = self.all[who].repeat
        if repeat is not None:
            self.seen["resent"] += 1
            repeat()

    # Turns

    def turn(self, who: int, endings: Sequence[Ending], want: int) -> bool:
        """Make a turn; return False where the session was lost, and another was opened."""
        player = self.all[who]
        player.turns = op = player.turns + 1
        policy = Policy(
            LIMITER,
            MAX_RETRIES,
            self.fleet_concurrency,
            self.revive_after,
            wants_links=who != 3,
            fleet_concurrency_per_flow=self.fleet_concurrency_per_flow,
        )
        answer = self.call(
            who,
            lambda: self.both.turn(
                number=player.number,
                nonce=player.nonce,
                op=op,
                endings=endings,
                want=want,
                policy=policy,
                claim_duration=player.claim_duration,
                after=player.last_turn,
            ),
        )
        if isinstance(answer, WentBack):
            self.seen["went back"] += 1
            player.last_turn = answer.last_turn
            return self.turn(who, endings, want)
        if answer is None:
            self.seen["lost"] += 1
            self.die(who)
            return False
        player.last_turn = f"{op} {answer.fence}"
        self._note(player, answer, endings)
        return True

    def settle(self, who: int, kinds: Sequence[Kind], want: int, first: int = 0) -> None:
        """Settle some of what is held, some of it wrongly, and ask for more."""
        held = list(self.all[who].held.items())
        held = held[first:] + held[:first]
        endings = []
        for kind, (item, fence) in zip(kinds, held, strict=False):
            text = "boom\ntrace" if kind.outcome in ("retry", "park") else ""
            claim_fence = fence - 1 if kind.wrong == "stale" else fence
            endings.append(Ending(item, claim_fence, kind.outcome, kind.limiter, kind.priority, text))
            if kind.wrong == "twice":
                endings.append(Ending(item, fence, kind.outcome, kind.limiter))
        self.turn(who, endings, want)

    def finish(self, who: int, want: int) -> None:
        """Settle all that is held, in success, and ask for more."""
        held = list(self.all[who].held.items())[:250]
        self.turn(who, [Ending(item, fence) for item, fence in held], want)

    def settle_late(self, who: int) -> None:
        """Settle what a process held that died."""
        if self._late:
            self.turn(who, [self._late.pop(0)], 0)

    def remember_more(self, who: int) -> None:
        """Know of a turn that Redis has not, as after it went back, and make another."""
        player = self.all[who]
        player.last_turn = f"{player.turns} {self.both.state.items.stamp + 1}"
        self.turn(who, [Ending(item, fence) for item, fence in player.held.items()][:1], 1)

    def back_off(self, who: int, item: Item, limiter: str, priority: int) -> None:
        """Count a failure of an item that no session needs to hold."""
        self.turn(who, [Ending(item, 0, "limit", limiter, priority)], 0)

    def wake(self, who: int) -> None:
        """Wake up by a token, and look for work; with another session where this one was lost."""
        if self.both.take_token() and not self.turn(who, [], 1):
            self.turn(who, [], 1)

    def _note(self, player: Player, answer: Answer, endings: Sequence[Ending]) -> None:
        for each in endings:
            if player.held.get(each.item) == each.fence and each.outcome != "limit":
                del player.held[each.item]
        player.held.update(dict.fromkeys([item for item, _ in answer.claimed], answer.fence))
        self.seen["claims"] += len(answer.claimed)
        self.seen["refused"] += len(answer.refused)
        self.seen["promoted"] += answer.promoted
        self.seen["revived"] += answer.revived
        self.seen["linked"] += any(answer.links)
        self.seen["not linked"] += "" in answer.links
        self.seen["suspect alone"] += answer.alone and len(answer.claimed) == 1
        self.seen["emptying"] += answer.alone and not answer.claimed
        suspects = self.both.state.items.suspects
        self.seen["suspect passed"] += bool(answer.claimed) and not answer.alone and bool(suspects)
        self.seen["held back"] += bool(self.both.state.items.held_back)
        self.seen["let in"] += bool(self.both.state.bound.let_in & self.both.state.items.pending.keys())
        for failure in self.both.state.items.failures.values():
            self.seen[failure.reason] += 1

    # Sessions

    def beat(self, who: int) -> None:
        """Send a heartbeat."""
        player = self.all[who]
        worker = player.describe()
        answer = self.call(
            who, lambda: self.both.heartbeat(player.number, player.nonce, worker, player.claim_duration)
        )
        if answer is None:
            self.seen["lost heartbeat"] += 1
            self.die(who)

    def die(self, who: int) -> None:
        """Die without a word, and come back as another; what was held is settled too late."""
        self._late += [Ending(item, fence, "retry") for item, fence in self.all[who].held.items()]
        self._before[who] = self.all[who]
        self.all[who] = self._opened(who)

    def come_back(self, who: int) -> None:
        """Find that it lives after all, and its session is lost: nothing that it held crashed it."""
        before = self._before[who]
        self.seen["forgiven"] += self.call(
            who, lambda: self.both.forgive(before.number, before.nonce, before.held)
        )

    def leave(self, who: int) -> None:
        """Close the session, even if it holds claims, and open another."""
        player = self.all[who]
        ended = self.call(who, lambda: self.both.close(player.number, player.nonce, player.describe()))
        self.seen["closed"] += ended
        self.die(who)

    def lapse(self, who: int) -> None:
        """Die, and let the others go on until the session lapsed."""
        number, held = self.all[who].number, bool(self.all[who].held)
        self.die(who)
        for _ in range(20):
            if number not in self.both.state.sessions.all:
                self.seen["crashed"] += held
                return
            self.pass_time(8 * SECOND)
            for other in range(len(self.all)):
                self.beat(other)
        raise AssertionError(f"session {number} does not lapse")

    def outage(self) -> None:
        """Let all sessions be silent for long; a process of the past is the first to look."""
        for _look in range(6):
            self.pass_time(10 * SECOND)
            self.both.heartbeat(1, "nobody", "", CLAIM_DURATIONS[0])

    # Time

    def pass_time(self, microseconds: int) -> None:
        """Let the server's clock go on, or back."""
        self.both.now += microseconds

    def wait_for_due(self, microseconds: int) -> None:
        """Let time pass until so long before the next delay ends."""
        due = self.both.state.items.next_due(self.revive_after)
        if due is not None:
            self.both.now = max(self.both.now, due - microseconds)

    # The informer

    def commit(self, who: int, batch: Batch) -> None:
        """Commit a batch of the stream."""
        stored = self.both.state.streams.all.get(STREAM)
        self._batches += 1
        epoch = (int(stored.epoch) if stored else 9) + batch.epochs_on
        right = (stored.batch if stored else "") if batch.follows else "b77"
        news = {"next": str(1000 + self._batches), "same": stored.position if stored else "1"}
        why = f"failed\n{self._batches}"
        commit = Commit(
            epoch=str(max(1, epoch)),
            replaces=stored.epoch if stored and batch.replaces else "",
            after=right,
            new=news.get(batch.new, batch.new),
            batch=right if batch.reports and right else f"b{self._batches}",
            about={"leader": f"me for the {self._batches}th time"},
            priority=batch.priority,
            keep_pending=batch.keep_pending,
            delay=batch.delay,
            keys=batch.items,
            known={f"pod-{self._batches % 5}": str(self._batches), "pod-7": "1"},
            gone=[f"pod-{self._batches * 3 % 5}", *batch.routed],
            unrouted={(batch.parked_as + item).encode(): why for item in batch.unrouted},
            parked_as=batch.parked_as,
        )
        self.seen[self.call(who, lambda: self.both.commit(commit))] += 1

    # The end

    def drain(self) -> None:
        """Work everything off; then nothing is left but the dead, clocks and buckets."""
        both, items, sessions = self.both, self.both.state.items, self.both.state.sessions
        both.resume()
        self.fleet_concurrency = self.revive_after = None
        self.fleet_concurrency_per_flow = self.fleet_concurrency_per_flow or 1
        while items.pending or items.claims or {*sessions.all} != {player.number for player in self.all}:
            self.wait_for_due(0)
            self.pass_time(max_clock_step_of(CLAIM_DURATIONS[0]))
            for who in range(len(self.all)):
                self.beat(who)
                self.finish(who, 50)
            both.compare()
        both.compare_trace()
        for player in self.all:
            assert both.close(player.number, player.nonce, player.describe()) == 1, (
                "an open session is not there"
            )
        both.compare()
        left = {name: both.store.read((command, name))[0] for name, command in _SIZES.items()}
        dead = left.pop("dead")
        assert left.pop("failures") == dead, "failure records of items that are no more"
        assert left.pop("wake") <= 1
        assert not any(left.values()), left
        (fields,) = both.store.read(("HKEYS", "meta"))
        # a turn removes what holds workers back, once it lapses: there may have been none since
        passing = (b"bucket ", b"catching_up", b"cover", b"emptying", b"trace", b"fair_by", b"bounded")
        own = {field for field in fields if not field.startswith(passing)}
        assert own == {b"layout", b"stamp", b"seen", b"clock"}


_SIZES = {
    **dict.fromkeys(
        (
            *("ready", "suspects", "held_back", "dirty", "processing", "delayed", "dead", "sessions"),
            *("flows", "flow_items"),
        ),
        "ZCARD",
    ),
    **dict.fromkeys(("claims", "failures", "workers", "arrivals"), "HLEN"),
    "wake": "LLEN",
}
