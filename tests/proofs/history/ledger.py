"""What the trace says of claims, streams and pauses, read without the specification: a second opinion."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from distq.redisio.checkpoints import MARK, checkpoint_of
from distq.redisio.keys import bytes_of
from distq.redisio.trace import TracedCall
from tests.workqueue.redis_state import RedisState

Broken = tuple[str, str]
"""An invariant, and how it was broken."""


class Held(NamedTuple):
    """The holder of an item, by the entries alone."""

    session: int
    fence: int


@dataclass
class Ledger:
    """What follows from the entries of one segment up to here."""

    held: dict[bytes, Held] = field(default_factory=dict)
    paused: bool = False
    last_fence: int = 0
    fair: bool = False
    counted: set[bytes] = field(default_factory=set)
    """Claims of turns with a limit of each flow, since the last turn without one."""
    ops: dict[bytes, bytes] = field(default_factory=dict)
    """The last turn of each session: a repeated one does nothing again."""
    batches: dict[bytes, bytes] = field(default_factory=dict)
    epochs: dict[bytes, int] = field(default_factory=dict)
    positions: dict[bytes, str] = field(default_factory=dict)
    known: dict[tuple[bytes, bytes], bytes] = field(default_factory=dict)
    """What was handed over of each object of a stream, as far as the trace shows it."""

    @classmethod
    def at(cls, start: RedisState) -> "Ledger":
        """Return what a segment begins with."""
        state = start.specified()
        held = {
            bytes_of(item): Held(claim.session, claim.fence) for item, claim in state.items.claims.items()
        }
        sessions = {
            f"{number}-{session.nonce}".encode(): session.op.encode()
            for number, session in state.sessions.all.items()
        }
        batches = {bytes_of(name): bytes_of(stream.batch) for name, stream in state.streams.all.items()}
        epochs = {bytes_of(name): int(stream.epoch) for name, stream in state.streams.all.items()}
        fair = state.items.flows.is_fair
        counted = {bytes_of(item) for item in state.bound.claimed & state.items.claims.keys()}
        return cls(held, state.paused is not None, 0, fair, counted, sessions, batches, epochs)

    def read(self, entry: TracedCall) -> Iterator[Broken]:
        """Follow an entry; yield what it breaks."""
        for item, session, _ in entry.taken_back:
            if self.held.pop(item, Held(session, 0)).session != session:
                yield "S1", f"{item!r} was taken back from {session}, and another held it"
        if entry.script == "turn" and isinstance(entry.reply, list):
            yield from self._turn(entry.inputs, entry.reply)
        elif entry.script == "commit" and entry.reply[0] == b"OK":
            yield from self._commit(entry.inputs, int(entry.reply[1]))
        elif entry.script in {"pause", "resume"}:
            self.paused = entry.script == "pause"
        elif entry.script == "share":
            self.fair = entry.inputs["wanted"] == b"namespace"
        elif entry.script == "fair_by":
            self.fair = entry.reply == b"namespace"

    def _turn(self, inputs: Any, reply: list[Any]) -> Iterator[Broken]:
        session, fence, popped = inputs["session"], int(reply[0]), reply[5]
        if self.ops.get(session) == inputs["op"]:
            return
        self.ops[session] = inputs["op"]
        if fence <= self.last_fence:
            yield "S2", f"fence {fence} after {self.last_fence}"
        self.last_fence = fence
        number = int(session.partition(b"-")[0])
        yield from self._settle(number, inputs, reply)
        if popped and self.paused:
            yield "S10", f"{popped[0]!r} was claimed while the queue was paused"
        for item in popped[::2]:
            if item in self.held:
                yield "S1", f"{item!r} was claimed by {number}, and {self.held[item].session} held it"
            self.held[item] = Held(number, fence)
        yield from self._count(popped[::2], inputs["fleet_concurrency_per_flow"])

    def _count(self, claimed: Sequence[bytes], limit: bytes) -> Iterator[Broken]:
        if not (limit and self.fair):
            self.counted.clear()
            return
        self.counted = {item for item in (*self.counted, *claimed) if item in self.held}
        flows = Counter(map(_flow_of, self.counted))
        for flow in {*map(_flow_of, claimed)}:
            if flows[flow] > int(limit):
                yield "S14", f"{flows[flow]} items of {flow!r} are claimed, and its limit is {int(limit)}"

    def _settle(self, number: int, inputs: Any, reply: list[Any]) -> Iterator[Broken]:
        words, n_ok = inputs["settlements"], int(inputs["n_ok"])
        refused = {int(place) for place in (reply[3] or b"").split(b",") if place}
        settled = [(words[2 * n], words[2 * n + 1]) for n in range(n_ok)]
        others = range(2 * n_ok, len(words), 6)
        settled += [(words[at], words[at + 1] if words[at + 2] != b"limit" else None) for at in others]
        for place, (item, fence) in enumerate(settled, 1):
            if fence is None or place in refused:
                continue
            if self.held.pop(item, None) != Held(number, int(fence)):
                yield (
                    "S2",
                    f"the end of {item!r} by {number}, fence {int(fence)}, is not that of its holder",
                )

    def _commit(self, inputs: Any, added: int) -> Iterator[Broken]:
        stream, batch, epoch = inputs["stream"], inputs["batch"], int(inputs["epoch"])
        last = self.batches.get(stream)
        if batch == last != inputs["after"] and not added:
            return  # it was sent again; a report is its own ``after``, and may end its stream
        if last is not None and inputs["after"] != last:
            yield "S11", f"{stream!r} went on from {inputs['after']!r}, and {last!r} was its last batch"
        if epoch < self.epochs.get(stream, 0) and not inputs["replaces"]:
            yield "S12", f"{stream!r} took epoch {epoch} after {self.epochs[stream]}"
        self.batches[stream], self.epochs[stream] = (batch, epoch) if inputs["new"] else (b"", 0)
        yield from self._learn(stream, inputs)
        self.positions[stream] = inputs["new"].decode()

    def _enqueues_all(self, stream: bytes, inputs: Any) -> bool:
        """Return whether a commit is of a list that enqueues everything: the first, a marked, a resync."""
        new = inputs["new"].decode()
        if inputs["keep_pending"] == b"0":
            return False
        return checkpoint_of(new) in {"", MARK} or "~" not in new or new == self.positions.get(stream)

    def _learn(self, stream: bytes, inputs: Any) -> Iterator[Broken]:
        """Learn what is known; what was known as it is, and waits for nothing, needs no reconcile."""
        n_items, n_known, rest = int(inputs["n_items"]), int(inputs["n_known"]), inputs["rest"]
        pairs = rest[n_items : n_items + 2 * n_known]
        states = dict(zip(pairs[::2], pairs[1::2], strict=True))
        gone = rest[n_items + 2 * n_known :]
        news = [name for name, value in states.items() if self.known.get((stream, name)) != value]
        if n_items and states and not (news or gone) and not self._enqueues_all(stream, inputs):
            yield (
                "S4",
                f"{stream!r} enqueued {n_items} items of objects that had not changed, say {rest[0]!r}",
            )
        self.known |= {(stream, name): value for name, value in states.items()}
        for name in gone:
            self.known.pop((stream, name), None)


def _flow_of(item: bytes) -> bytes:
    before, slash, _ = item.partition(b"/")
    return before if slash else b""
