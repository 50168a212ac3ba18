"""A queue in Redis beside its specification: each call goes to both, and both must agree."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from distq.redisio.commit import Commit
from distq.redisio.queue_store import QueueStore
from distq.workqueue.memory.entries import Answer, Ending, FailureHistory, Item, Policy, WentBack
from distq.workqueue.memory.flows import flow_of
from distq.workqueue.memory.state import QueueState
from tests.proofs.history import Recorder, check
from tests.workqueue.redis_state import RedisState, answer_of

STREAM = "pods"
_AT_ONCE = 1000
"""The wait of a session that has to come back at once, since more is due than one turn promotes."""


class SideBySide:
    """One queue, twice."""

    def __init__(self, store: QueueStore) -> None:
        self.store = store
        self.state = QueueState()
        self.now = 1_795_000_000_000_000
        self.recorder = Recorder(store)
        self.recorder.start()
        self._fleet_concurrency: int | None = None
        self._revive_after: int | None = None
        self._wakes_at_due = False
        self._forgave = False
        self._spans = 0

    def _link(self) -> str:
        """Return the span by which something becomes pending; every third has none."""
        self._spans += 1
        return f"00-{self._spans:032x}-{self._spans:016x}-01" if self._spans % 3 else ""

    def _run(self, script: str, **inputs: Any) -> Any:
        self._wakes_at_due = False
        self._forgave = self._forgave or script in {"forget", "forgive", "requeue"}
        self.store.connection.server_time = self.now
        return self.store.run(script, **inputs)

    # The operations: each returns what both agree on

    def open(self, nonce: str, claim_duration: int) -> int:
        """Open a session; return its number."""
        times = {"claim_duration": claim_duration, "max_clock_step": max_clock_step_of(claim_duration)}
        number = self.state.sessions.open(self.now, nonce, f"worker {nonce}", **times)
        session = self._run("open", layout=1, nonce=nonce, worker=f"worker {nonce}", **times)
        assert session == f"{number}-{nonce}".encode()
        return number

    def heartbeat(self, number: int, nonce: str, worker: str, claim_duration: int) -> tuple[int, str] | None:
        """Send a heartbeat; return the number of claims and the last turn, None where the session is lost."""
        times = {"claim_duration": claim_duration, "max_clock_step": max_clock_step_of(claim_duration)}
        reply = self._run("heartbeat", session=f"{number}-{nonce}", worker=worker, **times)
        expected = self.state.heartbeat(self.now, number, nonce, worker, **times)
        assert (None if reply == b"LOST" else (reply[0], reply[1].decode())) == expected
        return expected

    def close(self, number: int, nonce: str, worker: str) -> int:
        """End a session."""
        ended = self.state.sessions.close(number, nonce, worker)
        assert self._run("close", session=f"{number}-{nonce}", worker=worker) == ended
        return ended

    def add(self, items: Sequence[Item], priority: int, max_length: int | None) -> None:
        """Add items now."""
        link = self._link()
        expected = self.state.items.add(self.now, items, priority, max_length, link)
        length = "" if max_length is None else max_length
        reply = self._run("add", items=items, priority=priority, max_length=length, link=link)
        assert tuple(reply) == expected

    def add_after(self, items: Sequence[Item], priority: int, delay: int, max_length: int | None) -> None:
        """Add items later."""
        first = self.state.items.next_due()
        expected = self.state.items.add_after(self.now, items, priority, delay, max_length)
        length = "" if max_length is None else max_length
        reply = self._run("add_after", items=items, priority=priority, delay=delay, max_length=length)
        assert tuple(reply) == expected
        # who sees to what is due first sees to the next, too: perhaps by a poll, which no rule needs to make
        leaves_it = first is not None and self.now < first <= self.now + delay
        self._wakes_at_due = expected[1] > 0 and not leaves_it

    def forget(self, items: Sequence[Item]) -> None:
        """Drop failure records."""
        assert self._run("forget", items=items) == self.state.items.forget(self.now, items)

    def forgive(self, number: int, nonce: str, held: Mapping[Item, int]) -> int:
        """Take back what was counted against items when their session lapsed; return how much."""
        flat = [value for claim in held.items() for value in claim]
        forgiven = self.state.sessions.forgive(number, self.now, [*held.items()])
        assert self._run("forgive", session=f"{number}-{nonce}", held=flat) == forgiven
        return forgiven

    def requeue(self, state: str, items: Sequence[Item]) -> None:
        """Make items pending now, without their past."""
        assert self._run("requeue", state=state, items=items) == self.state.requeue(self.now, state, items)

    def delete(self, state: str, items: Sequence[Item]) -> None:
        """Drop what is pending or dead."""
        assert self._run("delete", state=state, items=items) == self.state.delete(state, items)

    def park(self, why: str, items: Sequence[Item]) -> None:
        """Move the items that wait to the dead ones."""
        assert self._run("park", why=why, items=items) == self.state.park(self.now, why, items)

    def suspect(self, items: Sequence[Item]) -> None:
        """Write down that two sessions died of items, which takes long to come about.

        Their fences are stamps, as all are: no claim has the same, even where the clock steps back.
        """
        fences = (self.state.items.next_stamp(self.now - 2), self.state.items.next_stamp(self.now - 1))
        self.store.connection.execute("HSET", self.store.key("meta"), "stamp", str(fences[1]))
        failures = self.state.items.failures
        for item in items:
            if item in self.state.items.pending or item in self.state.items.claims:
                before = failures.get(item, FailureHistory())
                first_line = before.text.partition("\n")[0]
                failures[item] = failure = replace(before, crashes=fences, text=first_line)
                crashes = f"{failure.reason}@{fences[0]},{fences[1]}"
                record = f"{failure.count} 2 {failure.failed_at} {crashes} {failure.text}"
                self.store.connection.execute("HSET", self.store.key("failures"), item, record)
        self.recorder.start()  # that was no script

    def pause(self) -> None:
        """Stop claims."""
        assert self._run("pause") == self.state.pause(self.now)

    def resume(self) -> None:
        """Let claims go on."""
        assert self._run("resume") == self.state.resume()

    def catch_up(self, epoch: str, timeout: int) -> None:
        """Stop claims until the watches of a leader have caught up."""
        expected = self.state.catch_up(self.now, epoch, timeout)
        assert self._run("catch_up", epoch=epoch, timeout=timeout) == expected

    def caught_up(self, epoch: str) -> None:
        """Let claims go on, as that leader does."""
        assert self._run("caught_up", epoch=epoch) == self.state.caught_up(epoch)

    def share(self, fair_by: str, *, replaces: bool) -> None:
        """Make the queue fair, or not."""
        now, before = self.state.items.share(fair_by, replaces=replaces)
        if replaces:
            expected = [before.encode(), int(self.state.items.flows.entered is not None)]
            assert self._run("share", wanted=fair_by) == expected
        else:
            assert self._run("fair_by", fair_by=fair_by) == now.encode()

    def take_token(self) -> bool:
        """Wake up, as a sleeper does; the turn that follows is the caller's."""
        return self.store.connection.execute("LPOP", self.store.key("wake")) is not None

    def commit(self, commit: Commit) -> str:
        """Commit a batch of the stream; return whether it was taken."""
        commit = replace(commit, link=self._link())
        expected = self.state.commit(self.now, STREAM, commit)
        reply = self._run("commit", stream=STREAM, **commit.inputs())
        assert [part.decode() if isinstance(part, bytes) else part for part in reply] == expected
        return str(expected[0])

    def turn(
        self,
        *,
        number: int,
        nonce: str,
        op: int,
        endings: Sequence[Ending],
        want: int,
        policy: Policy,
        claim_duration: int,
        after: str = "",
    ) -> Answer | WentBack | None:
        """Settle and claim; None where the session is lost."""
        record = self.state.sessions.live(number, nonce)
        resent = record is not None and record.op == str(op)
        endings = sorted(endings, key=lambda each: each.outcome != "success")
        max_clock_step = max_clock_step_of(claim_duration)
        expected = self.state.turn(
            now=self.now,
            number=number,
            nonce=nonce,
            op=str(op),
            after=after,
            endings=endings,
            want=want,
            policy=policy,
            max_clock_step=max_clock_step,
        )
        reply = self._run(
            "turn",
            session=f"{number}-{nonce}",
            op=op,
            after=after,
            want=want,
            max_clock_step=max_clock_step,
            max_retries=_text(policy.max_retries),
            limiter=policy.limiter,
            fleet_concurrency=_text(policy.fleet_concurrency),
            fleet_concurrency_per_flow=_text(policy.fleet_concurrency_per_flow),
            revive_after=_text(policy.revive_after),
            wants_links="1" if policy.wants_links else "",
            n_ok=sum(each.outcome == "success" for each in endings),
            settlements=[value for each in endings for value in _flat(each)],
        )
        if expected is None:
            assert reply == b"LOST"
            return None
        assert reply != b"LOST"
        if isinstance(expected, WentBack):
            assert reply == f"BACK {expected.last_turn}".encode()
            return expected
        assert isinstance(reply, list), reply
        assert answer_of(reply) == expected
        if not resent:  # nor lost, nor back: only then has it looked who is to be woken
            self._forgave = False
            self._fleet_concurrency, self._revive_after = policy.fleet_concurrency, policy.revive_after
            self._check_wait(reply[1], len(expected.claimed) < want)
            self._wakes_at_due = reply[1] != _AT_ONCE
        return expected

    # What is compared after each step

    def compare(self) -> None:
        """Compare all of Redis with the specification, and check what holds of every queue."""
        redis = RedisState.read(self.store)
        redis.check()
        redis.compare(self.state)
        if (redis.ready or redis.suspects) and self._may_claim() and not redis.tokens:
            # a session that empties itself asks each second; no other is woken for what only it may claim,
            # nor for a suspect that waits for the end of a claim of its flow
            waits = self._waits_for_a_claim(self.state.items.suspects_in_order())
            assert self.state.emptying or waits or self._forgave, "work is left, and no session is woken"
            assert self._forgave or not redis.ready, "no session is woken"
        if self._wakes_at_due:
            self._check_due_is_covered(int(redis.meta.get("cover", 0)), redis.tokens)
            self._wakes_at_due = False

    def _waits_for_a_claim(self, suspects: Sequence[Item]) -> bool:
        """Return whether others of the first suspect's flow are claimed, of which there is a limit."""
        return bool(suspects) and flow_of(suspects[0]) in set(map(flow_of, self.state.bound.claimed))

    def compare_trace(self) -> None:
        """Check that the trace of all this is true: played to another specification it leads to the same."""
        self.recorder.store.connection.server_time = self.now
        violations = check(self.recorder.finish())
        assert not violations, violations[0]

    # Who is woken

    def _may_claim(self) -> bool:
        """Return whether a session may claim, by the fleet limit of the last turn."""
        limit = self._fleet_concurrency
        held_back = self.state.paused is not None or self.state.catching_up is not None
        return not held_back and (limit is None or len(self.state.items.claims) < limit)

    def _longest_poll(self) -> int:
        return 2 * max(1_000_000, 100_000 * len(self.state.sessions.all)) - 750_000

    def _check_wait(self, wait: int, found_less: bool) -> None:
        """Check that a session sleeps no longer than the fleet polls if it found less than it asked for."""
        assert wait > 0 if found_less else wait == 0
        assert wait <= self._longest_poll() + 1

    def _check_due_is_covered(self, cover: int, tokens: int) -> None:
        """If the next due time is near, a session wakes for it: by its cover, or by the token."""
        due = self.state.items.next_due(self._revive_after)
        if due is None or due > self.now + self._longest_poll() or not self._may_claim():
            return
        covered = self.now < cover <= due
        assert tokens or covered, f"due at {due}, now {self.now}, covered {cover}: no session wakes"


def max_clock_step_of(claim_duration: int) -> int:
    """Return how far one call of such a session advances the claim clock."""
    return min(claim_duration // 3, 10_000_000)


def _flat(ending: Ending) -> tuple[str | int, ...]:
    if ending.outcome == "success":
        return ending.item, ending.fence
    priority = _text(ending.priority)
    return ending.item, ending.fence, ending.outcome, ending.limiter, priority, ending.text


def _text(number: int | None) -> str | int:
    return "" if number is None else number
