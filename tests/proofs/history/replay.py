"""Plays a trace to the specification: does it say the same of each call?"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from distq.redisio.trace import TracedCall
from distq.workqueue.memory.entries import (
    Answer,
    Ending,
    Item,
    Later,
    Policy,
    WentBack,
)
from tests.support.commits import commit_of
from tests.support.wanted import wanted
from tests.workqueue.redis_state import RedisState, answer_of


class Difference(NamedTuple):
    """Where an answer is not the specified one: the invariant that this is about, and both."""

    invariant: str
    text: str


class Replay:
    """The specification's queue, which each entry of a trace is played to."""

    def __init__(self, start: RedisState) -> None:
        self.state = start.specified()

    def play(self, entry: TracedCall) -> Difference | None:
        """Do what an entry did; return what is different about it."""
        if entry.cut:
            return Difference("S13", f"an entry of {entry.cut} bytes was cut")
        inputs = {name: _texts(value) for name, value in entry.inputs.items()}
        inputs["time"] = entry.at_us or 0
        play = getattr(self, f"_{entry.script}", None)
        if play is None:
            return Difference("S13", f"no script {entry.script!r}")
        found: Difference | None = play(entry, **inputs)
        return found

    # Producers

    def _add(
        self, entry: TracedCall, *, time: int, priority: str, max_length: str, link: str, items: list[Item]
    ) -> Difference | None:
        modelled = self.state.items.add(time, items, int(priority), _number(max_length), link)
        return _same("S13", list(modelled), entry.reply)

    def _add_after(
        self, entry: TracedCall, *, time: int, priority: str, max_length: str, delay: str, items: list[Item]
    ) -> Difference | None:
        modelled = self.state.items.add_after(
            time, items, int(priority), int(float(delay)), _number(max_length)
        )
        return _same("S13", list(modelled), entry.reply)

    def _commit(self, entry: TracedCall, *, time: int, stream: str, **inputs: Any) -> Difference | None:
        if entry.reply[0] == b"TOO_LARGE":
            return None  # nothing was done
        inputs["n_cached"] = "0"  # a trace leaves out what is cached
        return _same("S11", self.state.commit(time, stream, commit_of(inputs)), _texts(entry.reply))

    # Sessions

    def _open(
        self,
        entry: TracedCall,
        *,
        time: int,
        layout: str,
        nonce: str,
        claim_duration: str,
        max_clock_step: str,
        worker: str,
    ) -> Difference | None:
        del layout
        before = self._taken()
        number = self.state.sessions.open(
            time, nonce, worker, claim_duration=int(claim_duration), max_clock_step=int(max_clock_step)
        )
        return _same("S13", f"{number}-{nonce}", _texts(entry.reply)) or self._same_taken(before, entry)

    def _heartbeat(
        self,
        entry: TracedCall,
        *,
        time: int,
        session: str,
        claim_duration: str,
        max_clock_step: str,
        worker: str,
    ) -> Difference | None:
        before = self._taken()
        modelled = self.state.heartbeat(
            time,
            *_session(session),
            worker,
            claim_duration=int(claim_duration),
            max_clock_step=int(max_clock_step),
        )
        reply = _texts(entry.reply)
        answer = None if reply == "LOST" else tuple(reply)
        return _same("S2", modelled, answer) or self._same_taken(before, entry)

    def _close(self, entry: TracedCall, *, session: str, worker: str, time: int) -> Difference | None:
        del time
        return _same("S2", self.state.sessions.close(*_session(session), worker), entry.reply)

    def _forgive(self, entry: TracedCall, *, time: int, session: str, held: list[str]) -> Difference | None:
        claims = [(held[at], int(held[at + 1])) for at in range(0, len(held), 2)]
        modelled = self.state.sessions.forgive(_session(session)[0], time, claims)
        return _same("S9", modelled, entry.reply)

    # Turns

    def _turn(self, entry: TracedCall, **inputs: Any) -> Difference | None:
        if early := self._early(entry.due, inputs["time"]):
            return early
        before = self._taken()
        number, nonce = _session(inputs["session"])
        endings = _endings(inputs["settlements"], int(inputs["n_ok"]))
        modelled = self.state.turn(
            now=inputs["time"],
            number=number,
            nonce=nonce,
            op=inputs["op"],
            after=inputs["after"],
            endings=endings,
            want=wanted(inputs["want"], inputs["time"]),
            policy=Policy(
                inputs["limiter"],
                _number(inputs["max_retries"]),
                _number(inputs["fleet_concurrency"]),
                _number(inputs["revive_after"]),
                wants_links=bool(inputs["wants_links"]),
                fleet_concurrency_per_flow=_number(inputs["fleet_concurrency_per_flow"]),
            ),
            max_clock_step=int(inputs["max_clock_step"]),
        )
        if modelled is None or isinstance(modelled, WentBack):
            expected = b"LOST" if modelled is None else f"BACK {modelled.last_turn}".encode()
            return _same("S2", expected, entry.reply)
        if isinstance(entry.reply, bytes):
            return Difference("S2", f"answered {entry.reply!r} to a session that is there")
        answer = answer_of(entry.reply)
        return self._compare(modelled, answer) or self._same_taken(before, entry)

    def _early(self, due: Sequence[bytes], now: int) -> Difference | None:
        """Find what was taken for due before its time."""
        for item in map(_texts, due):
            pending = self.state.items.pending.get(item)
            if isinstance(pending, Later) and pending.due_ms * 1000 > now:
                return Difference(
                    "S6", f"{item} was pending {pending.due_ms * 1000 - now} us before it was due"
                )
        return None

    def _compare(self, modelled: Answer, answer: Answer) -> Difference | None:
        """Name what an answer breaks by where it differs first."""
        return (
            _same("S2", modelled.refused, answer.refused)
            or _same("S5", modelled.claimed, answer.claimed)
            or _same("S7", modelled.failures, answer.failures)
            or _same("S9", modelled.dispositions, answer.dispositions)
            or _same("S13", modelled, answer)
        )

    # People

    def _forget(self, entry: TracedCall, *, items: list[Item], time: int) -> Difference | None:
        return _same("S7", self.state.items.forget(time, items), entry.reply)

    def _requeue(self, entry: TracedCall, *, time: int, state: str, items: list[Item]) -> Difference | None:
        return _same("S13", self.state.requeue(time, state, items), entry.reply)

    def _delete(self, entry: TracedCall, *, time: int, state: str, items: list[Item]) -> Difference | None:
        del time
        return _same("S13", self.state.delete(state, items), entry.reply)

    def _park(self, entry: TracedCall, *, time: int, why: str, items: list[Item]) -> Difference | None:
        return _same("S9", self.state.park(time, why, items), entry.reply)

    def _pause(self, entry: TracedCall, *, time: int) -> Difference | None:
        return _same("S10", self.state.pause(time), entry.reply)

    def _resume(self, entry: TracedCall, *, time: int) -> Difference | None:
        del time
        return _same("S10", self.state.resume(), entry.reply)

    def _catch_up(self, entry: TracedCall, *, time: int, epoch: str, timeout: str) -> Difference | None:
        return _same("S10", self.state.catch_up(time, epoch, int(timeout)), entry.reply)

    def _caught_up(self, entry: TracedCall, *, time: int, epoch: str) -> Difference | None:
        del time
        return _same("S10", self.state.caught_up(epoch), entry.reply)

    def _fair_by(self, entry: TracedCall, *, time: int, fair_by: str) -> Difference | None:
        del time
        now, _ = self.state.items.share(fair_by, replaces=False)
        return _same("S5", now, _texts(entry.reply))

    def _share(self, entry: TracedCall, *, time: int, wanted: str) -> Difference | None:
        del time
        _, before = self.state.items.share(wanted, replaces=True)
        return _same("S5", [before, int(self.state.items.flows.entered is not None)], _texts(entry.reply))

    def _trace(self, entry: TracedCall, **_: Any) -> Difference | None:
        """Change nothing: a reader is no part of the queue."""

    # What moved beside what was asked

    def _taken(self) -> dict[Item, int]:
        return {item: claim.session for item, claim in self.state.items.claims.items()}

    def _same_taken(self, before: dict[Item, int], entry: TracedCall) -> Difference | None:
        """Compare which claims of others came to their end, by the trace and by the specification."""
        if not entry.taken_back:
            return None
        for item, session, _ in entry.taken_back:
            if before.get(_texts(item)) != session:
                return Difference(
                    "S1", f"{_texts(item)} was taken back from {session}, which did not hold it"
                )
        return None


def difference_at_end(replay: Replay, final: RedisState) -> str | None:
    """Compare all that Redis holds with what it should, but for the known sets; return what is different."""
    replay.state.streams.known = {name: value.decode() for name, value in final.known.items()}
    try:
        final.check()
        final.compare(replay.state)
    except AssertionError as error:
        return str(error) or "the structures do not fit to each other"
    return None


def _endings(words: Sequence[str], n_ok: int) -> list[Ending]:
    """Put the settlements of a turn into the words of the specification."""
    successes = [Ending(words[2 * n], int(words[2 * n + 1])) for n in range(n_ok)]
    others = [words[at : at + 6] for at in range(2 * n_ok, len(words), 6)]
    return successes + [
        Ending(item, int(fence or 0), outcome, limiter, _number(priority), text)
        for item, fence, outcome, limiter, priority, text in others
    ]


def _same(invariant: str, expected: Any, observed: Any) -> Difference | None:
    if expected == observed:
        return None
    return Difference(invariant, f"{observed!r:.300} instead of {expected!r:.300}")


def _session(text: str) -> tuple[int, str]:
    number, _, nonce = text.partition("-")
    return int(number), nonce


def _number(text: str) -> int | None:
    return int(text) if text else None


def _texts(value: Any) -> Any:
    """Return bytes, and those in lists, as the specification has them: text."""
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    return [_texts(each) for each in value] if isinstance(value, list) else value
