"""Looks at each call of Redis, before and after, for what no protocol may do.

It does not use what the server thinks that it did, only what it was asked, what it had and what it has: so a
mistake in the specification shows as well as one in its callers.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from distq.informer.objects import is_older
from distq.redisio.checkpoints import MARK, checkpoint_of
from distq.workqueue.memory.entries import Claim, Ending, Item, Stream
from distq.workqueue.memory.state import QueueState
from tests.proofs.simulate.asked import Inputs
from tests.proofs.simulate.model_redis import endings_of, is_live, session_of
from tests.proofs.simulate.violation import Violation


@dataclass
class Segment:
    """What counts within one history of Redis, and goes back with it."""

    epoch: str = "0"
    batch: str = ""
    leader: str = ""
    failures: Counter[Item] = field(default_factory=Counter)
    settled: dict[tuple[Item, int], str] = field(default_factory=dict)


@dataclass
class Before:
    """What Redis had before a call."""

    claims: dict[Item, Claim]
    pending: Collection[Item]
    stream: Stream | None
    known: dict[str, str]


class QueueHistory:
    """The history of one queue.

    ``touched`` has the last version at which an event meant a key; ``handed_over`` and ``forgotten`` have the
    moments at which a line of the known set came and was lost.
    """

    def __init__(self, touched: dict[Item, int]) -> None:
        self.segment = Segment()
        self.fences: dict[Item, int] = {}
        self.touched = touched
        self.handed_over: dict[tuple[str, str], float] = {}
        self.forgotten: dict[str, int] = {}

    def before(self, state: QueueState) -> Before:
        """Remember what a call may change."""
        streams = state.streams
        stream = next(iter(streams.all.values()), None)
        return Before(dict(state.items.claims), list(state.items.pending), stream, streams.known.copy())

    def save(self) -> Segment:
        """Return what goes back with Redis."""
        segment = copy(self.segment)
        segment.failures, segment.settled = segment.failures.copy(), segment.settled.copy()
        return segment

    def go_back(self, segment: Segment | None, *, clock_went_back: bool) -> None:
        """Go on from what was saved then, or from nothing."""
        self.segment = segment or Segment()
        if clock_went_back:  # numbers of a lost future may come again
            self.fences.clear()

    def note_loss(self, known: dict[str, str], moment: int) -> None:
        """Note what Redis has left of its known set."""
        self.forgotten |= {name: moment for name, _ in self.handed_over}
        self.handed_over |= dict.fromkeys(known.items(), moment + 0.5)

    # After each call

    def check(
        self, script: str, inputs: Inputs, reply: Any, before: Before, state: QueueState, *, moment: int
    ) -> None:
        """Raise Violation where the call did what it must not."""
        endings = endings_of(inputs) if script == "turn" and isinstance(reply, list) else []
        self._check_pending(script, before, state)
        if before.claims != state.items.claims or endings:
            self._check_claims(script, inputs, endings, before, state)
        if endings:
            self._check_settlements(inputs, endings, reply, before, state)
        if script == "commit" and reply[0] == b"OK":
            self._check_commit(inputs, before, state, moment)
        if script == "requeue":
            for name in inputs["items"]:
                del self.segment.failures[name.decode()]

    def _check_pending(self, script: str, before: Before, state: QueueState) -> None:
        items = state.items
        for item in before.pending:
            if item not in items.pending and item not in items.dead:
                claim = items.claims.get(item)
                if claim is None or claim == before.claims.get(item):
                    raise Violation("nothing pending is lost", f"{item} by {script}", lost=True)

    def _check_claims(
        self, script: str, inputs: Inputs, endings: Sequence[Ending], before: Before, state: QueueState
    ) -> None:
        number = session_of(inputs)[0] if script == "turn" else -1
        settled = {(ending.item, ending.fence) for ending in endings}
        sessions = state.sessions.all
        for item, claim in before.claims.items():
            if state.items.claims.get(item) == claim:
                continue
            ours = claim.session == number and (item, claim.fence) in settled
            if not ours and is_live(sessions.get(claim.session)):
                raise Violation(
                    "exclusive", f"{script} ended the claim of {item} by {claim.session}, which lives"
                )
        for item, claim in state.items.claims.items():
            if before.claims.get(item) == claim:
                continue
            if claim.session != number:
                raise Violation("exclusive", f"{script} claimed {item} for {claim.session}")
            if claim.fence <= self.fences.get(item, 0):
                raise Violation("fences grow", f"{item}: {claim.fence} after {self.fences[item]}")
            self.fences[item] = claim.fence

    def _check_settlements(
        self,
        inputs: Inputs,
        endings: Sequence[Ending],
        reply: Sequence[Any],
        before: Before,
        state: QueueState,
    ) -> None:
        number = session_of(inputs)[0]
        refused = {int(place) for place in reply[3].split(b",") if place}
        for place, ending in enumerate(endings, 1):
            claim, name = before.claims.get(ending.item), (ending.item, ending.fence)
            if place in refused or name in self.segment.settled:  # the same turn again
                continue
            if claim is None or (claim.session, claim.fence) != (number, ending.fence):
                raise Violation("a zombie's settlement is refused", f"{name} of {number}, held as {claim}")
            self.segment.settled[name] = ending.outcome
            if ending.outcome in {"retry", "park"}:
                self.segment.failures[ending.item] += 1
            elif ending.outcome in {"success", "after"} or (
                ending.outcome == "done" and ending.item not in before.pending
            ):
                del self.segment.failures[ending.item]
        for item in {ending.item for ending in endings}:
            failure = state.items.failures.get(item)
            count, counted = self.segment.failures[item], failure.count if failure else 0
            if count != counted:
                raise Violation("failures count once", f"{item} has {counted} instead of {count}")

    def _check_commit(self, inputs: Inputs, before: Before, state: QueueState, moment: int) -> None:
        segment, epoch, batch = self.segment, inputs["epoch"], inputs["batch"]
        if batch == segment.batch:
            return  # the same again
        if is_older(epoch, segment.epoch):
            raise Violation("accepted epochs never go back", f"{epoch} after {segment.epoch}")
        if inputs["after"] != segment.batch:
            raise Violation("commits are a chain", f"{batch} after {inputs['after']}, not {segment.batch}")
        leader = batch.rpartition("-")[0]
        if epoch == segment.epoch and leader != segment.leader and "people" not in {leader, segment.leader}:
            raise Violation("an epoch is one leader's", f"{epoch} is that of {segment.leader} and {leader}")
        position = before.stream.position if before.stream else ""
        checkpoint, new = checkpoint_of(position), checkpoint_of(inputs["new"])
        if is_older(new, checkpoint):
            raise Violation("checkpoints move on", f"from {checkpoint} to {new}")
        segment.epoch, segment.batch, segment.leader = epoch, batch, leader
        items = [item.decode() for item in inputs["rest"][: inputs["n_items"]]]
        for item in items:
            if item not in state.items.pending and item not in state.items.dead:
                raise Violation("nothing pending is lost", f"{item} by a commit", lost=True)
        resyncs = inputs["new"] == position
        if checkpoint not in {"", MARK} and not resyncs:
            self._check_changed(items, int(checkpoint))
        for name, line in state.streams.known.items():
            if before.known.get(name) != line:
                self.handed_over[name, line] = moment

    def _check_changed(self, items: Sequence[Item], checkpoint: int) -> None:
        for item in items:
            if self.touched.get(item, 0) <= checkpoint:
                raise Violation(
                    "what did not change is not enqueued",
                    f"{item}, changed at {self.touched.get(item, 0)}, from checkpoint {checkpoint}",
                )
