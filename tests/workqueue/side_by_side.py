"""A queue in Redis beside its model: each call goes to both, and what they tell and become is compared.

The state of Redis is read by one pipeline and put into the model's words.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from distq.redisio.queue_store import QueueStore
from distq.redisio.scores import decode_due, decode_order
from tests.workqueue.model import (
    Answer,
    Claim,
    Failure,
    Item,
    Later,
    Limiter,
    Now,
    Policy,
    QueueModel,
    Settlement,
)

STREAM = "pods"
_AT_ONCE = 1000
"""The wait of who is to come back at once, since more is due than one turn promotes."""
_ORDERED = ("ready", "dirty", "processing", "delayed", "dead", "sessions")
_READS = (
    *[("ZRANGE", name, 0, -1, "WITHSCORES") for name in _ORDERED],
    *[("HGETALL", name) for name in ("claims", "failures", "workers", "streams", "meta", "known")],
    ("LLEN", "wake"),
)
_now = lru_cache(100_000)(lambda score: Now(*decode_order(score)))


@lru_cache(100_000)
def _later(score: bytes) -> Later:
    priority, due = decode_due(score)
    return Later(priority, due // 1000)


@lru_cache(100_000)
def _claim(text: bytes) -> Claim:
    session, fence, order = text.split(b" ")
    return Claim(int(session), int(fence), _now(order))


@lru_cache(100_000)
def _failure(text: bytes) -> Failure:
    count, crashes, failed_at, reason, rest = text.decode().split(" ", 4)
    return Failure(int(count), int(crashes), int(failed_at), reason, rest)


def program(limiter: Limiter) -> str:
    """Write a limiter as the scripts take it."""
    name, *rest = limiter
    inner = [program(each) for each in rest if isinstance(each, tuple)]
    plain = [str(each) for each in rest if not isinstance(each, tuple)]
    if name == "maxof":
        return " ".join([*inner, "maxof", str(len(inner))])
    return " ".join([*inner, str(name), *plain])


class SideBySide:
    """One queue, twice."""

    def __init__(self, store: QueueStore, claim_duration: int) -> None:
        self.store = store
        self.model = QueueModel(claim_duration)
        self.now = 1_795_000_000_000_000
        self.fleet_concurrency: int | None = None

    def run(self, script: str, **inputs: Any) -> Any:
        """Run a script at our time."""
        self.store.connection.server_time = self.now
        return self.store.run(script, **inputs)

    # The operations: each returns what both agree on

    def open(self, nonce: str) -> int:
        """Open a session; return its number."""
        number = self.model.open(self.now, nonce, f"worker {nonce}")
        session = self.run(
            "open",
            layout=1,
            nonce=nonce,
            claim_duration=self.model.claim_duration,
            gap=self.model.gap,
            worker=f"worker {nonce}",
        )
        assert session == f"{number}-{nonce}".encode()
        return number

    def heartbeat(self, number: int, nonce: str, worker: str) -> int | None:
        """Send a heartbeat; return the number of claims, None where the session is lost."""
        reply = self.run(
            "heartbeat",
            session=f"{number}-{nonce}",
            claim_duration=self.model.claim_duration,
            gap=self.model.gap,
            worker=worker,
        )
        told = self.model.heartbeat(self.now, number, nonce, worker)
        assert (None if reply == b"LOST" else reply) == told
        return told

    def close(self, number: int, nonce: str) -> int:
        """End a session."""
        ended = self.model.close(number, nonce)
        assert self.run("close", session=f"{number}-{nonce}") == ended
        return ended

    def add(self, items: Sequence[Item], priority: int, max_length: int | None) -> list[int]:
        """Add items now."""
        told = self.model.add(self.now, items, priority, max_length)
        length = "" if max_length is None else max_length
        assert self.run("add", items=items, priority=priority, max_length=length) == told
        return told

    def add_after(
        self, items: Sequence[Item], priority: int, delay: int, max_length: int | None
    ) -> list[int]:
        """Add items later."""
        told = self.model.add_after(self.now, items, priority, delay, max_length)
        length = "" if max_length is None else max_length
        reply = self.run("add_after", items=items, priority=priority, delay=delay, max_length=length)
        assert reply == told
        if told[1]:
            self._check_due_is_covered()
        return told

    def forget(self, items: Sequence[Item]) -> int:
        """Drop failure records."""
        dropped = self.model.forget(items)
        assert self.run("forget", items=items) == dropped
        return dropped

    def requeue(self, state: str, items: Sequence[Item]) -> int:
        """Make items pending now, without their past."""
        changed = self.model.requeue(self.now, state, items)
        assert self.run("requeue", state=state, items=items) == changed
        return changed

    def delete(self, state: str, items: Sequence[Item]) -> int:
        """Drop what is pending or dead."""
        changed = self.model.delete(state, items)
        assert self.run("delete", state=state, items=items) == changed
        return changed

    def pause(self, paused: bool) -> None:
        """Pause or resume, as people do."""
        self.model.paused = paused
        meta, wake = self.store.key("meta"), self.store.key("wake")
        self.store.connection.execute(*(("HSET", meta, "paused", 1) if paused else ("HDEL", meta, "paused")))
        if not paused and not self.store.connection.execute("LLEN", wake):
            self.store.connection.execute("RPUSH", wake, 1)

    def take_token(self) -> bool:
        """Wake up, as a sleeper does; the turn that follows is the caller's."""
        return self.store.connection.execute("LPOP", self.store.key("wake")) is not None

    def commit(self, **inputs: Any) -> list[Any]:
        """Commit a batch of the stream."""
        told = self.model.commit(now=self.now, stream=STREAM, **inputs)
        items, known, gone = (inputs.pop(name) for name in ("items", "known", "gone"))
        flat = [text for pair in known.items() for text in pair]
        inputs["keep_pending"] = int(inputs["keep_pending"])
        reply = self.run(
            "commit",
            stream=STREAM,
            n_items=len(items),
            n_known=len(known),
            rest=[*items, *flat, *gone],
            **inputs,
        )
        assert reply == told
        return told

    def turn(
        self,
        *,
        number: int,
        nonce: str,
        op: int,
        settlements: Sequence[Settlement],
        want: int,
        policy: Policy,
    ) -> Answer | None:
        """Settle and claim; None where the session is lost."""
        successes = [each for each in settlements if each.outcome == "success"]
        others = [each for each in settlements if each.outcome != "success"]
        flat: list[Any] = [value for each in successes for value in (each.item, each.fence)]
        for each in others:
            own = "" if each.limiter is None else program(each.limiter)
            priority = "" if each.priority is None else each.priority
            flat += (each.item, each.fence, each.outcome, own, priority, each.text)
        record = self.model.sessions.get(number)
        resent = record is not None and record.nonce == nonce and record.op == str(op)
        told = self.model.turn(
            now=self.now,
            number=number,
            nonce=nonce,
            op=str(op),
            settlements=[*successes, *others],
            want=want,
            policy=policy,
        )
        reply = self.run(
            "turn",
            session=f"{number}-{nonce}",
            op=op,
            want=want,
            gap=self.model.gap,
            max_retries="" if policy.max_retries is None else policy.max_retries,
            limiter=program(policy.limiter),
            fleet_concurrency="" if policy.fleet_concurrency is None else policy.fleet_concurrency,
            n_ok=len(successes),
            settlements=flat,
        )
        if told is None:
            assert reply == b"LOST"
            return None
        answer, wait = _answer(reply)
        assert answer == told
        if not resent:
            self.fleet_concurrency = policy.fleet_concurrency
            self._check_wait(wait, len(told.claimed) < want)
            if wait != _AT_ONCE:
                self._check_due_is_covered()
        return told

    # What is compared after each step

    def compare(self) -> None:
        """Compare all of Redis with the model, and check what holds of every queue."""
        replies = self.store.read(*_READS)
        ready, dirty, processing, delayed, dead, sessions = map(_pairs, replies[:6])
        claims, failures, workers, streams, meta, known = map(_pairs, replies[6:12])
        model = self.model

        assert claims.keys() == processing.keys()
        assert not ready.keys() & processing.keys()
        assert dirty.keys() <= processing.keys()
        assert not delayed.keys() & (ready.keys() | dirty.keys())
        assert not dead.keys() & (ready.keys() | delayed.keys() | processing.keys())
        assert failures.keys() <= ready.keys() | delayed.keys() | processing.keys() | dead.keys()

        pending: dict[Item, Now | Later] = {item: _later(score) for item, score in delayed.items()}
        pending |= {item: _now(score) for item, score in (ready | dirty).items()}
        _same("pending", pending, model.pending)
        _same("claims", {item: _claim(text) for item, text in claims.items()}, model.claims)
        _same("processing", {item: int(session) for item, session in processing.items()}, _holders(model))
        _same("failures", {item: _failure(text) for item, text in failures.items()}, model.failures)
        _same("dead", {item: int(at) for item, at in dead.items()}, model.dead)
        self._compare_sessions(sessions, workers, meta)
        self._compare_meta(meta)
        expected = {name.encode(): " ".join(stream).encode() for name, stream in model.streams.items()}
        _same("streams", streams, expected)
        _same("known", known, {name.encode(): text.encode() for name, text in model.known.items()})
        self._check_wake(replies[12], bool(ready))

    def _compare_sessions(
        self, sessions: dict[bytes, bytes], workers: dict[bytes, bytes], meta: dict[bytes, bytes]
    ) -> None:
        model = self.model.sessions
        deadlines = {int(number): int(deadline) for number, deadline in sessions.items()}
        _same("sessions", deadlines, {number: session.deadline for number, session in model.items()})
        records = {int(field): text.split(b" ")[0] for field, text in meta.items() if field.isdigit()}
        expected = {
            number: b"lapsed" if session.ended else session.nonce.encode()
            for number, session in model.items()
            if session.crashed or not session.ended
        }
        _same("session records", records, expected)
        assert workers.keys() <= sessions.keys()
        for number, session in model.items():
            if not session.ended:
                assert workers[str(number).encode()] == session.worker.encode()

    def _compare_meta(self, meta: dict[bytes, bytes]) -> None:
        model = self.model
        seen = None if b"seen" not in meta else int(meta[b"seen"])
        assert (int(meta.get(b"stamp", 0)), seen) == (model.stamp, model.seen)
        assert int(meta.get(b"clock", 0)) == model.clock
        assert (b"paused" in meta) == model.paused
        buckets = {
            tuple(map(float, field.split(b" ")[1:])): tuple(map(float, text.split(b" ")))
            for field, text in meta.items()
            if field.startswith(b"bucket ")
        }
        _same("buckets", buckets, model.buckets)

    # Who is woken

    def _check_wake(self, tokens: int, ready: bool) -> None:
        """At most one token; and one where work is left that somebody may claim."""
        assert tokens <= 1
        if ready and not self.model.paused and self._has_room():
            assert tokens == 1, "work is left, and nobody is woken"

    def _has_room(self) -> bool:
        """Return whether the last turn's fleet limit lets somebody claim."""
        return self.fleet_concurrency is None or len(self.model.claims) < self.fleet_concurrency

    def _longest_poll(self) -> int:
        return 2 * max(1_000_000, 100_000 * len(self.model.sessions)) - 750_000

    def _check_wait(self, wait: int, found_less: bool) -> None:
        """Who found less than asked for may sleep, no longer than the fleet polls."""
        assert wait > 0 if found_less else wait == 0
        assert wait <= self._longest_poll() + 1

    def _check_due_is_covered(self) -> None:
        """Somebody wakes at the next due time if it is near: who covers it, or who gets the token."""
        due = [entry.due_ms * 1000 for entry in self.model.pending.values() if isinstance(entry, Later)]
        if not due or min(due) > self.now + self._longest_poll() or self.model.paused or not self._has_room():
            return
        ((cover,), tokens) = self.store.read(("HMGET", "meta", "cover"), ("LLEN", "wake"))
        covered = self.now < int(cover or 0) <= min(due)
        assert tokens or covered, f"due at {min(due)}, now {self.now}, covered {cover!r}: nobody wakes"


def _answer(reply: Sequence[Any]) -> tuple[Answer, int]:
    fence, wait, alone, refused, fates, popped, records, _ = reply
    claimed = [(item, _now(order)) for item, order in zip(popped[::2], popped[1::2], strict=True)]
    failures = [None if text is None else _failure(text) for text in records] or [None] * len(claimed)
    answer = Answer(
        int(fence),
        bool(alone),
        [int(place) for place in refused.split(b",") if place],
        [fate.decode() for fate in fates],
        claimed,
        failures,
    )
    return answer, wait


def _pairs(flat: Sequence[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _holders(model: QueueModel) -> dict[Item, int]:
    return {item: claim.session for item, claim in model.claims.items()}


def _same(what: str, observed: dict[Any, Any], expected: dict[Any, Any]) -> None:
    if observed != expected:
        differ = {
            name: (observed.get(name), expected.get(name))
            for name in observed.keys() | expected.keys()
            if observed.get(name) != expected.get(name)
        }
        raise AssertionError(f"{what} in Redis and in the model: {differ}")
