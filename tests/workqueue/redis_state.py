"""A queue in Redis, read at once and put into the words of its specification, and compared with it."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from distq.redisio.keys import bytes_of, text_of
from distq.redisio.queue_store import QueueStore
from distq.redisio.scores import decode_due, decode_order, decode_parked
from distq.workqueue.memory.entries import (
    Answer,
    Claim,
    Dead,
    Emptying,
    FailureHistory,
    Item,
    Later,
    Link,
    Now,
    Session,
    Stream,
)
from distq.workqueue.memory.flows import Entered, flow_of
from distq.workqueue.memory.history import Line, durations_of, word_of
from distq.workqueue.memory.state import QueueState

_ORDERED = (
    *(
        "ready",
        "suspects",
        "held_back",
        "dirty",
        "processing",
        "delayed",
        "dead",
        "sessions",
        "links",
        "flows",
    ),
    "flow_items",
)
READS = (
    *[("ZRANGE", name, 0, -1, "WITHSCORES") for name in _ORDERED],
    *[("HGETALL", name) for name in ("claims", "failures", "workers", "streams", "meta", "known", "history")],
    ("HGETALL", "arrivals"),
    ("LLEN", "wake"),
)

Pairs = dict[str, bytes]

_name = lru_cache(100_000)(text_of)
now_of = lru_cache(100_000)(lambda score: Now(*decode_order(score)))


@lru_cache(100_000)
def _later(score: bytes) -> Later:
    priority, due = decode_due(score)
    return Later(priority, due // 1000)


def _dead(score: bytes) -> Dead:
    at = decode_parked(score)
    assert at is not None
    return Dead(at, int(score) >= 2**52)


@lru_cache(100_000)
def _claim(text: bytes) -> Claim:
    session, fence, order = text.split(b" ")
    return Claim(int(session), int(fence), now_of(order))


@lru_cache(100_000)
def failure_of(text: bytes) -> FailureHistory:
    """Return what a failure record says."""
    count, crashes, failed_at, reason, rest = text.decode().split(" ", 4)
    reason, _, fences = reason.partition("@")
    claims = tuple(int(fence) for fence in fences.split(",") if fence)
    assert len(claims) == int(crashes)
    return FailureHistory(int(count), claims, int(failed_at), reason, rest)


def _links(links: Pairs) -> list[Link]:
    """Return the links in their order; a member is the first stamp and the span, its score the last stamp."""
    return [
        Link(int(first), int(last), span)
        for (first, span), last in ((member.split(" "), last) for member, last in links.items())
    ]


@dataclass(frozen=True)
class RedisState:
    """All of one queue, as Redis has it."""

    ready: Pairs
    suspects: Pairs
    held_back: Pairs
    dirty: Pairs
    processing: Pairs
    delayed: Pairs
    dead: Pairs
    sessions: Pairs
    links: Pairs
    flows: Pairs
    flow_items: Pairs
    claims: Pairs
    failures: Pairs
    workers: Pairs
    streams: Pairs
    meta: Pairs
    known: Pairs
    history: Pairs
    arrivals: Pairs
    tokens: int

    @classmethod
    def read(cls, store: QueueStore) -> "RedisState":
        """Read everything in one round trip."""
        return cls.of(store.read(*READS))

    @classmethod
    def of(cls, replies: Sequence[Any]) -> "RedisState":
        """Put the replies to ``READS`` into words."""
        pairs = {
            str(name): _pairs(reply) for (_, name, *_), reply in zip(READS[:-1], replies[:-1], strict=True)
        }
        return cls(**pairs, tokens=replies[-1])

    def specified(self) -> QueueState:
        """Return the specification's queue in this state; of the known sets nothing."""
        state = QueueState()
        items = state.items
        items.pending |= {item: _later(score) for item, score in self.delayed.items()}
        items.pending |= self._pending_now()
        items.suspects |= self.suspects.keys()
        items.held_back |= self.held_back.keys()
        self._specify_bound(state)
        items.claims |= self._claimed()
        items.flows.fair_by, items.flows.entered = self._fair_by()
        items.flows.ends |= self._ends()
        items.failures |= {item: failure_of(text) for item, text in self.failures.items()}
        items.dead |= {item: _dead(score) for item, score in self.dead.items()}
        items.links += _links(self.links)
        clocks = (int(self.meta.get(name, 0)) for name in ("stamp", "clock"))
        items.stamp, state.sessions.clock = clocks
        state.sessions.seen = int(self.meta["seen"]) if "seen" in self.meta else None
        state.sessions.all |= {int(number): self._session(number) for number in self.sessions}
        state.paused, state.emptying = self._paused(), self._emptying()
        state.catching_up = self._catching_up()
        state.buckets.tokens |= self._buckets()
        for name, text in self.streams.items():
            state.streams.all[name] = Stream(*text.decode(errors="surrogateescape").split(" ", 3))
        self._specify_history(state)
        return state

    def _pending_now(self) -> dict[Item, Now]:
        found = {
            item: self._placed(item, now_of(score))
            for item, score in (self.ready | self.suspects | self.held_back).items()
        }
        return found | {item: now_of(score) for item, score in self.dirty.items()}

    def _placed(self, item: Item, place: Now) -> Now:
        """Return a place by flow with the time since which the item is pending."""
        arrival = self.arrivals.get(item)
        return place if arrival is None else now_of(arrival)._replace(tag=place.since)

    def _claimed(self) -> dict[Item, Claim]:
        claims = {item: _claim(text) for item, text in self.claims.items()}
        return {item: claim._replace(stood=self._placed(item, claim.stood)) for item, claim in claims.items()}

    def _fair_by(self) -> tuple[str, Entered | None]:
        """Return by what the queue is fair, and up to where items have entered if it only becomes so."""
        fair_by = self.meta.get("fair_by", b"").decode()
        if not fair_by.startswith("to "):
            assert "entered" not in self.meta
            return fair_by, None
        entered = Entered()
        if "entered" in self.meta:
            structure, order, passed = self.meta["entered"].split()
            entered = Entered(structure == b"suspects", now_of(order).place, int(passed))
        return fair_by.removeprefix("to "), entered

    def _ends(self) -> dict[tuple[int, str], int]:
        ends = {}
        for member, score in self.flows.items():
            priority, _, flow = member.partition(" ")
            assert now_of(score).priority == int(priority), f"end of {member} at {score!r}"
            ends[int(priority), flow] = now_of(score).since
        return ends

    def _compare_flows(self, state: QueueState) -> None:
        assert self._fair_by() == (state.items.flows.fair_by, state.items.flows.entered)
        _same("flows", self._ends(), state.items.flows.ends)
        entries = {item: claim.stood for item, claim in state.items.claims.items()}
        entries |= {
            item: entry
            for item, entry in state.items.pending.items()
            if isinstance(entry, Now) and item not in entries
        }
        tagged = {item for item, entry in entries.items() if entry.tag is not None}
        assert self.arrivals.keys() == tagged, f"arrivals: {self.arrivals} instead of {tagged}"

    def _flow_items(self, letter: str) -> set[Item]:
        """Return what is claimed (c) of flows that are bounded, or let in (l)."""
        entries = (entry.partition("\0")[2] for entry in self.flow_items)
        return {entry[1:] for entry in entries if entry[0] == letter}

    def _looked_at(self) -> int | None:
        return int(self.meta["bounded"].partition(b" ")[0]) if "bounded" in self.meta else None

    def _specify_bound(self, state: QueueState) -> None:
        state.bound.looked_at = self._looked_at()
        state.bound.claimed |= self._flow_items("c")
        state.bound.let_in |= self._flow_items("l")

    def _compare_bound(self, state: QueueState) -> None:
        bound = state.bound
        found = self._looked_at(), self._flow_items("c"), self._flow_items("l")
        expected = bound.looked_at, bound.claimed, bound.let_in
        assert found == expected, f"looked at, claimed and let in: {found} instead of {expected}"
        entries = {
            f"{flow_of(item)}\0w".encode() + struct.pack(">d", float(order)) + item.encode()
            for item, order in self.held_back.items()
        }
        missing = entries - {bytes_of(entry) for entry in self.flow_items}
        assert not missing, f"held back and never found: {missing}"

    def _specify_history(self, state: QueueState) -> None:
        past = state.history
        past.last = int(self.history["last"]) if "last" in self.history else None
        past.done, past.failed = map(int, self.history.get("totals", b"0 0").split())
        past.chunks |= self._chunks()
        for ring in past.durations:
            waiting, working = self._durations(ring).split()
            past.durations[ring] = durations_of(waiting), durations_of(working)

    def _durations(self, ring: str) -> str:
        return self.history.get(f"{ring} durations", b"- -").decode()

    def _chunks(self) -> dict[tuple[str, int], tuple[int, list[Line]]]:
        found = {}
        for field, chunk in self.history.items():
            ring, _, place = field.partition(" ")
            if place.isdigit():
                number, *lines = chunk.decode().splitlines()
                found[ring, int(place)] = int(number), [_line(line) for line in lines]
        return found

    def _session(self, number: str) -> Session:
        session = Session("", float(self.sessions[number]), self.workers.get(number, b"").decode())
        record = self.meta.get(number, b"").decode()
        if record in {"", "lapsed"}:
            session.ended, session.crashed = True, bool(record)
            return session
        session.nonce, session.op, fence, rest = record.split(" ", 3)
        if session.op != "-":
            alone, _, refused = rest.partition(" ")
            session.fence, session.alone = int(fence), alone == "1"
            session.refused = [int(place) for place in refused.split(",") if place]
        return session

    def check(self) -> None:
        """Check the rules that every queue keeps after any calls."""
        ready, claimed, delayed = (
            self.ready.keys() | self.suspects.keys() | self.held_back.keys(),
            self.processing.keys(),
            self.delayed.keys(),
        )
        assert not self.ready.keys() & self.suspects.keys()
        assert not self.held_back.keys() & (self.ready.keys() | self.suspects.keys())
        assert self.claims.keys() == claimed
        assert not ready & claimed
        assert self.dirty.keys() <= claimed
        assert not delayed & (ready | self.dirty.keys())
        assert not self.dead.keys() & (ready | delayed | claimed)
        assert self.failures.keys() <= ready | delayed | claimed | self.dead.keys()
        assert self.dead.keys() <= self.failures.keys()
        assert self.tokens <= 1

    def compare(self, state: QueueState) -> None:
        """Compare with what it should be."""
        items = state.items
        pending: dict[Item, Now | Later] = {item: _later(score) for item, score in self.delayed.items()}
        pending |= self._pending_now()
        _same("pending", pending, items.pending)
        assert self.suspects.keys() == items.suspects, (
            f"suspects: {self.suspects} instead of {items.suspects}"
        )
        assert self.held_back.keys() == items.held_back, (
            f"held back: {self.held_back} instead of {items.held_back}"
        )
        self._compare_bound(state)
        _same("claims", self._claimed(), items.claims)
        self._compare_flows(state)
        holders = {item: claim.session for item, claim in items.claims.items()}
        _same("processing", {item: int(session) for item, session in self.processing.items()}, holders)
        _same("failures", {item: failure_of(text) for item, text in self.failures.items()}, items.failures)
        _same("dead", {item: _dead(score) for item, score in self.dead.items()}, items.dead)
        assert _links(self.links) == items.links, f"links: {self.links} instead of {items.links}"
        self._compare_sessions(state)
        self._compare_meta(state)
        self._compare_history(state)
        streams = {name: " ".join(stream).encode() for name, stream in state.streams.all.items()}
        _same("streams", self.streams, streams)
        _same("known", self.known, {name: text.encode() for name, text in state.streams.known.items()})

    def _compare_sessions(self, state: QueueState) -> None:
        sessions = state.sessions.all
        deadlines = {int(number): int(deadline) for number, deadline in self.sessions.items()}
        _same("sessions", deadlines, {number: session.deadline for number, session in sessions.items()})
        records = {int(field): text.split(b" ")[0] for field, text in self.meta.items() if field.isdigit()}
        expected = {
            number: b"lapsed" if session.ended else session.nonce.encode()
            for number, session in sessions.items()
            if session.crashed or not session.ended
        }
        _same("session records", records, expected)
        assert self.workers.keys() <= self.sessions.keys()
        for number, session in sessions.items():
            if not session.ended:
                assert self.workers[str(number)] == session.worker.encode()

    def _compare_meta(self, state: QueueState) -> None:
        seen = None if "seen" not in self.meta else int(self.meta["seen"])
        clocks = int(self.meta.get("stamp", 0)), seen, int(self.meta.get("clock", 0))
        expected = state.items.stamp, state.sessions.seen, state.sessions.clock
        assert clocks == expected, f"stamp, seen and clock: {clocks} instead of {expected}"
        assert self._paused() == state.paused
        assert self._catching_up() == state.catching_up
        emptying = self._emptying()
        assert emptying == state.emptying, f"emptying: {emptying} instead of {state.emptying}"
        _same("buckets", self._buckets(), state.buckets.tokens)

    def _compare_history(self, state: QueueState) -> None:
        past = state.history
        totals = b"%d %d" % (past.done, past.failed)
        assert self.history.get("totals", b"0 0") == totals, f"{self.history} instead of {totals!r}"
        assert self.history.get("last") == (None if past.last is None else b"%d" % past.last)
        _same("history", self._chunks(), past.chunks)
        durations = {ring: " ".join(map(word_of, counts)) for ring, counts in past.durations.items()}
        _same("durations", {ring: self._durations(ring) for ring in durations}, durations)

    def _paused(self) -> int | None:
        return int(self.meta["paused"]) if "paused" in self.meta else None

    def _catching_up(self) -> tuple[str, int] | None:
        if "catching_up" not in self.meta:
            return None
        epoch, until = self.meta["catching_up"].decode().split(" ")
        return epoch, int(until)

    def _emptying(self) -> Emptying | None:
        return Emptying(*map(int, self.meta["emptying"].split())) if "emptying" in self.meta else None

    def _buckets(self) -> dict[tuple[float, float], tuple[float, int]]:
        buckets = {}
        for field, text in self.meta.items():
            if field.startswith("bucket "):
                rate, burst = map(float, field.split(" ")[1:])
                tokens, at = text.split(b" ")
                buckets[rate, burst] = float(tokens), int(at)
        return buckets


def answer_of(reply: Sequence[Any]) -> Answer:
    """Put a turn's reply into the words of the specification."""
    fence, _, alone, refused, dispositions, popped, records, promoted, revived, *links = reply
    claimed = [(_name(item), now_of(order)) for item, order in zip(popped[::2], popped[1::2], strict=True)]
    records = records or [None] * len(claimed)  # it says nothing where there is nothing to say
    failures = [None if text is None else failure_of(text) for text in records]
    places = [int(place) for place in (refused or b"").split(b",") if place]
    return Answer(
        int(fence),
        bool(alone),
        places,
        list(map(_name, dispositions or [])),
        claimed,
        failures,
        promoted,
        revived,
        list(map(_name, links[0])) if links else [],
    )


def _line(text: str) -> Line:
    return tuple(int(word) if word.isdigit() else word for word in text.split())


def _pairs(flat: Sequence[bytes]) -> Pairs:
    return dict(zip(map(_name, flat[::2]), flat[1::2], strict=True))


def _same(what: str, observed: dict[Any, Any], expected: dict[Any, Any]) -> None:
    if observed != expected:
        differ = {
            name: (observed.get(name), expected.get(name))
            for name in observed.keys() | expected.keys()
            if observed.get(name) != expected.get(name)
        }
        raise AssertionError(f"{what} in Redis and by the specification: {differ}")
