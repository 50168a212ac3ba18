"""The random tests of the queue: rules that Hypothesis puts in any order, each compared when it is done.

A failure shrinks to few calls with simple arguments.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, cast

from hypothesis import HealthCheck, Phase, core, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from distq.redisio.connection import Connection
from distq.workqueue.memory.entries import Item
from tests.support.parts import IN_CI
from tests.workqueue.draws import (
    ITEMS,
    KINDS,
    LIMITERS,
    NAMESPACES,
    PLANS,
    SIMPLE_PLANS,
    any_of,
    any_process,
    most,
    priority,
    some,
)
from tests.workqueue.players import MAX_RETRIES, SECOND, Batch, Kind, Players

LONG = "long"
"""The Hypothesis profile for long runs (``--hypothesis-profile=long``)."""
settings.register_profile(LONG)


def step(**draws: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a rule that ends with the comparison; as an invariant it would fill the output."""

    def compared(method: Callable[..., None]) -> Callable[..., None]:
        @wraps(method)
        def run_and_compare(machine: Any, **drawn: Any) -> None:
            method(machine, **drawn)
            machine.players.seen["steps"] += 1
            machine.players.both.compare()

        a_rule: Any = rule(**draws)  # type: ignore[call-overload]  # its overloads know no mapping
        return cast("Callable[..., None]", a_rule(run_and_compare))

    return compared


class QueueMachine(RuleBasedStateMachine):
    """Twelve items and four processes, on one server."""

    def __init__(self, connection: Connection, seen: Counter[str]) -> None:
        super().__init__()
        self.players = Players(connection, seen)

    def teardown(self) -> None:
        """Work everything off, unless something failed or was given up."""
        if sys.exc_info()[0] is None:
            self.players.drain()

    # Producers

    @step(who=any_process, items=some, priority=priority, most=most)
    def add(self, who: int, items: Sequence[Item], priority: int, most: int | None) -> None:
        """Add items."""
        self.players.call(who, lambda: self.players.both.add(items, priority, most))

    @step(who=any_process, items=some)
    def add_again(self, who: int, items: Sequence[Item]) -> None:
        """Add items, as informers do all the time."""
        self.players.call(who, lambda: self.players.both.add(items, 0, None))

    @step(
        who=any_process, items=some, priority=priority, most=most, delay=any_of(5000, 1, 700_000, 30 * SECOND)
    )
    def add_after(self, who: int, items: Sequence[Item], priority: int, most: int | None, delay: int) -> None:
        """Add items for later."""
        self.players.call(who, lambda: self.players.both.add_after(items, priority, delay, most))

    # Consumers

    @step(who=any_process, want=any_of(1, 2, 5))
    def get(self, who: int, want: int) -> None:
        """Ask for items."""
        self.players.turn(who, [], want)

    @step(who=any_process, kinds=st.sampled_from(PLANS), want=any_of(0, 1, 3), first=any_of(0, 1, 2))
    def settle(self, who: int, kinds: Sequence[Kind], want: int, first: int) -> None:
        """Settle what is held, or else claimed now, some of it wrongly, and ask for more."""
        if not self.players.all[who].held:
            self.players.turn(who, [], 2)
        self.players.settle(who, kinds, want, first)

    @step(
        who=any_process,
        kinds=st.sampled_from(SIMPLE_PLANS),
        meanwhile=any_of("", "add", "add_after", "back_off", "repair", "crash"),
    )
    def serve(self, who: int, kinds: Sequence[Kind], meanwhile: str) -> None:
        """Claim items and settle them; something happens to one of them meanwhile."""
        self.players.turn(who, [], len(kinds))
        both, other = self.players.both, who - 1
        for item in list(self.players.all[who].held)[:1]:
            match meanwhile:
                case "add":
                    both.add([item], 0, None)
                case "add_after":
                    both.add_after([item], 0, SECOND, None)
                case "back_off":
                    self.players.back_off(other, item, "", 0)
                case "repair":
                    both.add_after([item], 0, SECOND, None)
                    self.repair(who=other, how="park", state="", items=[item])
                case "crash":
                    self.players.lapse(other)
        self.players.settle(who, kinds, 0)

    @step(who=any_process, want=any_of(1, 5))
    def finish(self, who: int, want: int) -> None:
        """Settle all that is held in success, and ask for more."""
        self.players.finish(who, want)

    @step(
        who=any_process,
        item=st.sampled_from(ITEMS),
        limiter=st.sampled_from(LIMITERS),
        priority=priority,
        times=any_of(1, 1, MAX_RETRIES + 1),
    )
    def back_off(self, who: int, item: Item, limiter: str, priority: int, times: int) -> None:
        """Count failures without a claim, now and then until the item is given up."""
        for _ in range(times):
            self.players.back_off(who, item, limiter, priority)

    @step(who=any_process)
    def wake(self, who: int) -> None:
        """Take the token and look for work."""
        self.players.wake(who)

    @step(who=any_process, what=any_of("the last call", "a dead process's claim", "a forgotten turn"))
    def come_late(self, who: int, what: str) -> None:
        """Repeat the last call, settle what another held, or come after a turn that Redis forgot."""
        {
            "the last call": self.players.resend,
            "a dead process's claim": self.players.settle_late,
            "a forgotten turn": self.players.remember_more,
        }[what](who)

    # Life and death

    @step(who=any_of(None, 0, 1, 2, 3))
    def beat(self, who: int | None) -> None:
        """Send the heartbeat of one player, or of all players."""
        for each in range(len(self.players.all)) if who is None else [who]:
            self.players.beat(each)

    @step(who=any_process)
    def come_back(self, who: int) -> None:
        """Find that a process lives whose session lapsed."""
        self.players.come_back(who)

    @step(who=any_process, how=any_of("die", "leave", "lapse", "outage"))
    def end(self, who: int, how: str) -> None:
        """Die, close, lapse while others live, or be silent all together."""
        {
            "die": lambda: self.players.die(who),
            "leave": lambda: self.players.leave(who),
            "lapse": lambda: self.players.lapse(who),
            "outage": self.players.outage,
        }[how]()

    @step(
        who=any_process,
        how=any_of("lapse", "leave", "outage"),
        last=any_process,
        back=any_of("no", "at once", "late"),
        times=any_of(1, 1, 3),
    )
    def crash(self, who: int, how: str, last: int, back: str, times: int) -> None:
        """Claim something, end with it, perhaps come back, and let another claim."""
        for _ in range(times):
            self.players.turn(who, [], 1)
            self.end(who=who, how=how)
            if back == "at once":
                self.players.come_back(who)
            self.players.pass_time(SECOND)
        self.players.turn(last, [], 2)
        if back == "late":
            self.players.come_back(who)

    @step(items=some)
    def suspect(self, items: Sequence[Item]) -> None:
        """Let two sessions have died of items."""
        self.players.both.suspect(items)

    @step(
        items=some,
        who=any_process,
        want=any_of(1, 2, 5),
        how=any_of("", "", "requeue", "delete", "park", "forget"),
        state=any_of("", "ready"),
    )
    def meet_suspects(self, items: Sequence[Item], who: int, want: int, how: str, state: str) -> None:
        """Add suspects, and let every player ask; then one player repairs the items that wait apart."""
        self.players.both.add(items, 0, None)
        self.players.both.suspect(items[:2])
        for each in range(len(self.players.all)):
            self.players.turn((who + each) % len(self.players.all), [], want)
        if how:
            self.repair(who=who, how=how, state=state, items=items)

    @step(
        items=some,
        who=any_process,
        how=any_of("", "requeue", "delete", "park", "add", "beat"),
        state=any_of("", "ready"),
    )
    def meet_limits(self, items: Sequence[Item], who: int, how: str, state: str) -> None:
        """Let one of each flow be claimed, the others be held back, and something happen to some of these."""
        self.limit_flows(limit=1)
        self.players.both.add(ITEMS, 0, None)
        self.players.turn(who, [], 5)
        if how == "add":
            self.players.both.add([*items, "new/item"], 0, 10)
        elif how == "beat":
            self.players.pass_time(10 * SECOND)
            self.players.beat(who)
        elif how:
            self.repair(who=who, how=how, state=state, items=items)

    # Time

    @step(microseconds=any_of(SECOND, 1, 50, 1000, 4000, 20_000, 150_000))
    def pass_time(self, microseconds: int) -> None:
        """Let some time pass."""
        self.players.pass_time(microseconds)

    @step(seconds=any_of(6, 12, 400, 800, 3600, 72 * 3600, -0.001, -2, -3600))
    def jump(self, seconds: float) -> None:
        """Let much time pass, or step the clock back."""
        self.players.pass_time(round(seconds * SECOND))

    @step(microseconds=any_of(0, 1, 1000))
    def wait_for_due(self, microseconds: int) -> None:
        """Wait until the next delay ends, or just before."""
        self.players.wait_for_due(microseconds)

    # People and the informer

    @step(
        who=any_process,
        how=any_of("requeue", "delete", "park", "forget"),
        state=any_of("", "ready", "dirty", "delayed", "dead"),
        items=some,
    )
    def repair(self, who: int, how: str, state: str, items: Sequence[Item]) -> None:
        """Requeue, delete, park or forget items."""
        both = self.players.both
        call = {
            "requeue": lambda: both.requeue(state, items),
            "delete": lambda: both.delete(state, items),
            "park": lambda: both.park("by hand", items),
            "forget": lambda: both.forget(items),
        }[how]
        self.players.call(who, call)

    @step(who=any_process, paused=any_of(False, False, True))
    def pause(self, who: int, paused: bool) -> None:
        """Pause or resume."""
        both = self.players.both
        self.players.call(who, both.pause if paused else both.resume)

    @step(epoch=any_of("9", "10", "11"), seconds=any_of(0, 0, 1, 60))
    def hold_back(self, epoch: str, seconds: int) -> None:
        """Let the watches of a leader begin to catch up, or end that."""
        both = self.players.both
        if seconds:
            both.catch_up(epoch, seconds * SECOND)
        else:
            both.caught_up(epoch)

    @step(fair_by=any_of("namespace", "namespace", "none"), replaces=any_of(False, True))
    def share(self, fair_by: str, replaces: bool) -> None:
        """Make the queue fair, or let a user end that."""
        self.players.both.share(fair_by, replaces=replaces)

    @step(items=some, before=any_of(-5, 0, 5))
    def add_one_to_a_fair_queue(self, items: Sequence[Item], before: int) -> None:
        """Add one item alone, which may be there already, with another priority."""
        self.players.both.share("namespace", replaces=True)
        self.players.both.add(items[:1], before, None)
        self.players.both.add(items[:1], 0, None)

    @step(limit=any_of(None, None, None, 1, 3, 6, 0))
    def limit_fleet(self, limit: int | None) -> None:
        """Limit what all hold together."""
        self.players.fleet_concurrency = limit

    @step(limit=any_of(1, 2, None, 1))
    def limit_flows(self, limit: int | None) -> None:
        """Make the queue fair, and limit what all hold together of one flow."""
        self.players.both.share("namespace", replaces=True)
        self.players.fleet_concurrency_per_flow = limit

    @step(seconds=any_of(None, 400, 10, 100_000))
    def revive_dead(self, seconds: int | None) -> None:
        """Let the dead come back after a while, or stay."""
        self.players.revive_after = None if seconds is None else seconds * SECOND

    @step(who=any_process, seconds=any_of(10, 400), microseconds=any_of(0, 1))
    def give_up(self, who: int, seconds: int, microseconds: int) -> None:
        """Fail until nothing is retried any more; look again when that is to be revived, or just before."""
        self.revive_dead(seconds=seconds)
        for _ in range(MAX_RETRIES + 1):
            self.players.turn(who, [], 1)
            self.players.settle(who, [Kind("retry", "fixed 0")], 0)
        self.players.wait_for_due(microseconds)
        self.players.turn(who, [], 1)

    @step(
        who=any_process,
        batch=st.builds(
            Batch,
            items=some,
            priority=priority,
            keep_pending=st.booleans(),
            delay=any_of(0, 0, 0, 1, SECOND, 400 * SECOND),
            epochs_on=any_of(0, 0, 0, 1, 95, -1),
            replaces=any_of(False, False, False, True),
            follows=any_of(True, True, True, False),
            new=any_of("next", "same", "!", ""),
            unrouted=any_of((), (), ITEMS[:1], ITEMS[1:3]),
            routed=any_of((), (), ITEMS[:1], ITEMS[1:3]),
            parked_as=any_of("", "", "Pod: "),
            reports=any_of(False, False, False, True),
        ),
    )
    def commit(self, who: int, batch: Batch) -> None:
        """Commit a batch of a stream, now and then as a leader of the past or at another position."""
        self.players.commit(who, batch)


MANY = tuple(f"{NAMESPACES[n % 7 % 3]}item-{n}" for n in range(300))
PARTS = {"all": MANY, "few": MANY[:60], "most": MANY[50:]}
part = st.sampled_from(list(PARTS))


class ManyMachine(RuleBasedStateMachine):
    """Three hundred items: what one step takes back, promotes or claims is bounded, and nothing is lost."""

    def __init__(self, connection: Connection, seen: Counter[str]) -> None:
        super().__init__()
        self.players = Players(connection, seen)

    teardown = QueueMachine.teardown
    share, limit_flows = QueueMachine.share, QueueMachine.limit_flows
    come_back, end, beat, jump, wait_for_due = (
        QueueMachine.come_back,
        QueueMachine.end,
        QueueMachine.beat,
        QueueMachine.jump,
        QueueMachine.wait_for_due,
    )

    @step(part=part, priority=priority)
    def add(self, part: str, priority: int) -> None:
        """Add items."""
        self.players.both.add(PARTS[part], priority, None)

    @step(part=part, priority=priority, delay=any_of(5000, 2 * SECOND), most=any_of(None, 270))
    def add_after(self, part: str, priority: int, delay: int, most: int | None) -> None:
        """Add items for later."""
        self.players.both.add_after(PARTS[part], priority, delay, most)

    @step(who=any_process, want=any_of(250, 100, 5))
    def get(self, who: int, want: int) -> None:
        """Ask for items."""
        self.players.turn(who, [], want)

    @step(part=part, who=any_process, seconds=any_of(0, 1, 72 * 3600))
    def meet_suspects(self, part: str, who: int, seconds: int) -> None:
        """Add suspects, let two ask until all wait apart, and let them be none later."""
        self.players.both.add(PARTS[part], 0, None)
        self.players.both.suspect(PARTS[part])
        for each in (who, who - 1, who):
            self.players.turn(each, [], 5)
        self.players.pass_time(seconds * SECOND)
        self.players.beat(who)

    @step(who=any_process, want=any_of(0, 250))
    def finish(self, who: int, want: int) -> None:
        """Settle what is held, and ask for more."""
        self.players.finish(who, want)

    @step(who=any_process, kind=st.sampled_from(KINDS))
    def settle(self, who: int, kind: Kind) -> None:
        """Settle what is held, all in one way."""
        self.players.settle(who, [kind] * 125, 0)


def examples_of(*, desk: int, ci: int) -> int:
    """Return how many examples a random test makes here."""
    if settings.get_current_profile_name() == LONG:
        return 50 * ci
    return ci if IN_CI else desk


def run(
    machine: Callable[[], RuleBasedStateMachine],
    *,
    examples: int,
    steps: int,
    number: int | None = None,
    phases: Sequence[Phase] = tuple(Phase),
    **more: Any,
) -> None:
    """Run examples of so many steps each, from a seed that is said where one fails."""
    number = time.time_ns() // 1_000_000 % 100_000_000 if number is None else number
    try:
        run_state_machine_as_test(
            seed(core.global_force_seed or number)(machine),  # type: ignore[arg-type]  # a function will do
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=phases,
                report_multiple_bugs=False,
                **more,
            ),
        )
    except AssertionError as error:
        error.add_note(f"Found by --hypothesis-seed={core.global_force_seed or number}")
        raise
