"""Who leads, and from when to when; on real API servers, with time that the tests let pass."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from distq.client import Client
from distq.errors import ApiError, LeaseLost
from distq.leaderelection import LeaderElectionRecord
from distq.testing.fake_clock import FakeClock
from tests.fixtures.api_servers import ApiServer
from tests.leaderelection.participants import (
    LEASE,
    Participant,
    PausableLock,
    eventually,
    one_acts_at_most,
    pass_time,
)

LEASES = "coordination.k8s.io/v1/Lease"
Enter = Callable[..., Participant]


@pytest.fixture
def client(api_server: ApiServer) -> Client:
    """Give an administrator's client."""
    return api_server.client()


@pytest.fixture
def enter(api_server: ApiServer, namespace: str) -> Iterator[Enter]:
    """Give a function that makes participants, and end them all after the test."""
    entered: list[Participant] = []
    client = api_server.client()

    def make(identity: str, lock: type[PausableLock] = PausableLock, **settings: Any) -> Participant:
        made = Participant(lock(client, namespace, identity), clock=FakeClock(), **settings)
        entered.append(made)
        return made

    yield make
    for participant in entered:
        participant.stop.set()
    for participant in entered:
        if participant.thread.is_alive():
            participant.end()


def lease_of(client: Client, namespace: str) -> dict[str, Any]:
    """Return the Lease as it is now."""
    lease = client.get(LEASES, f"{namespace}/{LEASE}")
    assert lease is not None
    return lease


def later(epoch: str, than: str) -> bool:
    """Compare epochs as streams do: by length, then text."""
    return (len(epoch), epoch) > (len(than), than)


def test_the_first_to_come_leads(enter: Enter, client: Client, namespace: str) -> None:
    """It creates the Lease, and its epoch is the version of that write."""
    ada = enter("ada").lead()
    assert ada.elector.is_leader()
    assert ada.elector.may_act()
    assert ada.elector.get_leader() == "ada"
    assert ada.epochs == [lease_of(client, namespace)["metadata"]["resourceVersion"]]
    assert not ada.terms[0].is_set()
    assert ada.stopped == 0


def test_a_renewal_keeps_term_and_epoch(enter: Enter, client: Client, namespace: str) -> None:
    """Only the time of the renewal moves."""
    ada = enter("ada").lead()
    before = lease_of(client, namespace)["spec"]
    pass_time(30.0, ada)
    after = lease_of(client, namespace)["spec"]
    assert after["renewTime"] > before["renewTime"]
    assert after | {"renewTime": ""} == before | {"renewTime": ""}
    assert len(ada.epochs) == 1
    assert ada.elector.may_act()


def test_a_dead_leader_is_replaced_when_its_lease_ends(enter: Enter, client: Client, namespace: str) -> None:
    """Not before the duration of the record went by on the follower's clock, and then at once."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    ada.pause()
    pass_time(14.5, bob)
    assert bob.epochs == []
    pass_time(0.5, bob)
    eventually(bob.elector.may_act)
    assert later(bob.elector.epoch, ada.elector.epoch)
    spec = lease_of(client, namespace)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("bob", 1)


def test_a_leader_that_was_paused_never_acts_again(enter: Enter) -> None:
    """It knows by its own clock, before it hears of its successor; its term ends once."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    with one_acts_at_most(ada, bob):
        ada.pause()
        pass_time(15.0, ada, bob)
        eventually(bob.elector.may_act)
        ada.resume()
        assert not ada.elector.may_act()
        ada.thread.join(20)
        assert not ada.thread.is_alive()
    assert ada.terms[0].is_set()
    assert ada.stopped == 1
    assert not ada.elector.is_leader()


def test_a_pause_shorter_than_the_deadline_costs_nothing(enter: Enter) -> None:
    """The leader renews when it wakes, and goes on."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    ada.pause()
    pass_time(9.5, ada, bob)
    ada.resume()
    ada.settle()
    pass_time(14.0, ada, bob)
    assert ada.elector.may_act()
    assert bob.epochs == []


def test_a_release_is_taken_up_without_waiting(enter: Enter, client: Client, namespace: str) -> None:
    """The watch tells the follower: no time passes at all."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    with one_acts_at_most(ada, bob):
        ada.end()
        eventually(bob.elector.may_act)
    assert (ada.stopped, ada.terms[0].is_set()) == (1, True)
    assert later(bob.elector.epoch, ada.elector.epoch)
    spec = lease_of(client, namespace)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("bob", 1)


def test_a_released_record_is_client_go_s(enter: Enter, client: Client, namespace: str) -> None:
    """Nobody holds it, for one second, and the transitions stay."""
    ada = enter("ada").lead()
    ada.end()
    spec = lease_of(client, namespace)["spec"]
    assert spec["holderIdentity"] == ""
    assert spec["leaseDurationSeconds"] == 1
    assert spec["leaseTransitions"] == 0
    assert spec["acquireTime"] == spec["renewTime"]


def test_without_release_on_cancel_the_lease_runs_out(enter: Enter, client: Client, namespace: str) -> None:
    """The record stays as the leader left it."""
    ada, bob = enter("ada", release_on_cancel=False).lead(), enter("bob").follow()
    ada.end()
    assert lease_of(client, namespace)["spec"]["holderIdentity"] == "ada"
    pass_time(14.5, bob)
    assert bob.epochs == []
    pass_time(0.5, bob)
    eventually(bob.elector.may_act)
    assert ada.stopped == 1


class UnwatchedLock(PausableLock):
    """A lock whose account may not watch."""

    @contextmanager
    def watch(self, on_record: object) -> Iterator[None]:  # noqa: ARG002 - the protocol's
        """Hear nothing."""
        yield


def test_a_follower_that_may_not_watch_looks_now_and_then(enter: Enter) -> None:
    """After at most 2.2 retry periods, as client-go's do."""
    ada, bob = enter("ada").lead(), enter("bob", UnwatchedLock).follow()
    ada.end()
    pass_time(4.4, bob)
    eventually(bob.elector.may_act)


def test_who_only_follows_ends_when_told(enter: Enter) -> None:
    """Without a term no callback is called."""
    enter("ada").lead()
    bob = enter("bob").follow()
    bob.end()
    assert (bob.epochs, bob.stopped) == ([], 0)


def test_a_deleted_lease_changes_no_leader(enter: Enter, client: Client, namespace: str) -> None:
    """Followers wait as if it was there, the leader makes it again and keeps its term."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    with one_acts_at_most(ada, bob):
        for _ in range(3):
            client.delete(LEASES, f"{namespace}/{LEASE}")
            pass_time(6.0, ada, bob)
    spec = lease_of(client, namespace)["spec"]
    assert spec["holderIdentity"] == "ada"
    assert ada.elector.may_act()
    assert (len(ada.epochs), bob.epochs) == (1, [])


def test_a_lease_deleted_after_its_leader_died_is_made_again(
    enter: Enter, client: Client, namespace: str
) -> None:
    """By a follower that waited for as long as its holder may still have acted."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    ada.pause()
    client.delete(LEASES, f"{namespace}/{LEASE}")
    pass_time(14.5, bob)
    assert bob.epochs == []
    pass_time(5.0, bob)  # it saw the deletion within 4.4 seconds
    eventually(bob.elector.may_act)
    assert later(bob.elector.epoch, ada.elector.epoch)


def test_the_record_of_a_rival_ends_the_term_at_the_next_try(
    enter: Enter, client: Client, namespace: str
) -> None:
    """Even of one that follows no rules; the deadline is not waited for."""
    ada = enter("ada").lead()
    lease = lease_of(client, namespace)
    lease["spec"]["holderIdentity"] = "mallory"
    client.update(lease)
    pass_time(2.0, ada)
    ada.thread.join(20)
    assert not ada.elector.may_act()
    assert (ada.stopped, ada.terms[0].is_set()) == (1, True)
    assert ada.elector.get_leader() == "mallory"
    assert lease_of(client, namespace)["spec"]["holderIdentity"] == "mallory"


def test_a_second_process_of_one_identity_ends_the_first(enter: Enter) -> None:
    """It starts a term by a write of its own, and the first sees a term that is not its own."""
    first = enter("ada").lead()
    second = enter("ada").lead()
    assert later(second.elector.epoch, first.elector.epoch)
    pass_time(2.0, first)
    first.thread.join(20)
    assert (first.elector.may_act(), first.stopped) == (False, 1)
    pass_time(2.0, second)
    assert second.elector.may_act()


def test_other_writes_to_the_lease_cost_no_renewal(enter: Enter, client: Client, namespace: str) -> None:
    """Someone annotates the Lease as fast as the server answers; the leader's 409s end well at once."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    done = threading.Event()
    written = 0

    def annotate() -> None:
        nonlocal written
        while not done.is_set():
            note = {"metadata": {"annotations": {"note": str(written)}}}
            client.patch(LEASES, f"{namespace}/{LEASE}", note)
            written += 1

    storm = threading.Thread(target=annotate, daemon=True)
    storm.start()
    try:
        with one_acts_at_most(ada, bob):
            for _ in range(25):
                before = lease_of(client, namespace)["spec"]["renewTime"]
                pass_time(2.0, ada, bob)
                assert lease_of(client, namespace)["spec"]["renewTime"] > before
    finally:
        done.set()
        storm.join()
    assert written > 25
    assert (len(ada.epochs), bob.epochs) == (1, [])
    annotations = lease_of(client, namespace)["metadata"]["annotations"]
    assert annotations == {"note": str(written - 1)}


@pytest.mark.parametrize("leap", [3600.0, -3600.0])
def test_steps_of_the_wall_clock_change_nothing(enter: Enter, leap: float) -> None:
    """Neither the leader's nor the follower's: a living lease is kept, a dead one is taken in time."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    assert ada.clock is not None
    assert bob.clock is not None
    with one_acts_at_most(ada, bob):
        for clock in ada.clock, bob.clock:
            clock.step_wall(leap)
            pass_time(20.0, ada, bob)
            assert ada.elector.may_act()
            assert bob.epochs == []
        ada.pause()
        bob.clock.step_wall(-2 * leap)
        pass_time(15.0, bob)
        eventually(bob.elector.may_act)


def test_the_record_says_how_long_it_holds(enter: Enter) -> None:
    """A follower with shorter settings waits for the leader's longer lease."""
    ada = enter("ada").lead()
    hasty = enter("bob", lease_duration=4.0, renew_deadline=3.0, retry_period=1.0).follow()
    ada.pause()
    pass_time(14.5, hasty)
    assert hasty.epochs == []
    pass_time(0.5, hasty)
    eventually(hasty.elector.may_act)


class LossyLock(PausableLock):
    """A lock whose first writes succeed, but whose replies are lost."""

    lost = 2

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Create, and lose the reply."""
        return self._lose(PausableLock.create, record, timeout)

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Update, and lose the reply."""
        return self._lose(PausableLock.update, record, timeout)

    def _lose(self, write: Callable[..., LeaderElectionRecord], *args: Any) -> LeaderElectionRecord:
        record, timeout = args
        if not self.lost:
            return write(self, record, timeout=timeout)
        before = self._lease
        write(self, record, timeout=timeout)
        self._lease = before
        self.lost -= 1
        raise ApiError("the reply was lost")


def test_a_term_begins_with_a_write_whose_reply_was_seen(
    enter: Enter, client: Client, namespace: str
) -> None:
    """After a lost reply the elector writes again, and that version is the epoch."""
    ada = enter("ada", LossyLock).start()
    ada.settle()
    created = lease_of(client, namespace)["metadata"]["resourceVersion"]
    assert not ada.elector.may_act()
    assert ada.epochs == []
    pass_time(8.8, ada)
    eventually(ada.elector.may_act)
    assert ada.epochs != [created]
    assert later(ada.epochs[0], created)
    assert lease_of(client, namespace)["spec"]["leaseTransitions"] == 0


def test_lost_replies_of_renewals_end_no_term(enter: Enter) -> None:
    """The leader finds its own record, newer than it knew, and renews it."""
    LossyLock.lost = 0
    ada = enter("ada", LossyLock).lead()
    LossyLock.lost = 2
    assert isinstance(ada.lock, LossyLock)
    ada.lock.lost = 2
    pass_time(9.0, ada)
    assert ada.lock.lost == 0
    assert ada.elector.may_act()
    assert len(ada.epochs) == 1


def test_a_failure_of_the_leader_s_work_frees_the_lease(enter: Enter, client: Client, namespace: str) -> None:
    """run() raises it, after the end of the term: nobody leads without working."""

    def fail(_: threading.Event) -> None:
        raise RuntimeError("no work today")

    ada = enter("ada", on_started_leading=fail).start()
    ada.thread.join(20)
    assert str(ada.error) == "no work today"
    assert ada.stopped == 1
    assert lease_of(client, namespace)["spec"]["holderIdentity"] == ""


def test_a_failure_of_the_last_callback_frees_the_lease_too(
    enter: Enter, client: Client, namespace: str
) -> None:
    """As sys.exit() in on_stopped_leading, which many do."""

    def leave() -> None:
        raise SystemExit(1)

    ada = enter("ada", on_stopped_leading=leave).lead()
    ada.end()
    assert isinstance(ada.error, SystemExit)
    assert lease_of(client, namespace)["spec"]["holderIdentity"] == ""


def test_the_same_elector_can_run_again(enter: Enter) -> None:
    """Each run is a new term with a greater epoch."""
    ada = enter("ada").lead()
    ada.end()
    first = ada.elector.epoch
    ada.stop.clear()
    ada.thread = threading.Thread(target=ada._run, daemon=True)
    ada.thread.start()
    eventually(lambda: len(ada.epochs) == 2)
    assert later(ada.elector.epoch, first)
    ada.end()
    assert ada.stopped == 2


def test_each_new_leader_is_announced_once(enter: Enter) -> None:
    """To leaders and followers alike; empty after a release."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    ada.end()
    eventually(bob.elector.may_act)
    eventually(lambda: sorted(bob.leaders) == ["", "ada", "bob"])
    assert sorted(ada.leaders) == ["", "ada"]


class StuckLock(PausableLock):
    """A lock whose updates can hang."""

    hang = False
    go_on = threading.Event()

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Hang on demand, then fail."""
        if self.hang:
            self.go_on.wait(20)
            raise ApiError("hung")
        return super().update(record, timeout=timeout)


def test_the_health_check_sees_a_leader_that_hangs(enter: Enter) -> None:
    """It fails once the lease expired longer ago than is tolerated; a follower is always healthy."""
    ada, bob = enter("ada", StuckLock).lead(), enter("bob").follow()
    assert isinstance(ada.lock, StuckLock)
    assert ada.clock is not None
    ada.lock.hang = True
    ada.clock.step(2.0)
    ada.clock.step(13.0)
    ada.elector.check()
    ada.clock.step(1.0)
    assert not ada.elector.may_act()
    with pytest.raises(LeaseLost, match=r"not renewed for 16\.0 s"):
        ada.elector.check()
    ada.elector.check(max_tolerable_expired_lease=1.0)
    bob.elector.check()
    ada.lock.go_on.set()


def test_a_bare_lease_can_be_taken(enter: Enter, client: Client, namespace: str) -> None:
    """As people make them beforehand, to grant rights on it."""
    client.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": namespace},
        }
    )
    ada = enter("ada").lead()
    pass_time(4.0, ada)
    assert ada.elector.may_act()


def test_whatever_happens_one_acts_at_most(enter: Enter, client: Client, namespace: str) -> None:
    """Random pauses, deletions, foreign writes, releases and clock steps; epochs only grow."""
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    history: list[str] = []
    names = iter(range(10**6))

    def newcomer() -> Participant:
        return enter(f"process-{next(names)}", history=history)

    participants = [newcomer().lead(), newcomer().follow(), newcomer().follow()]
    for _ in range(150):
        with one_acts_at_most(*participants, remark=f"seed {seed}"):
            leading = [each for each in participants if each.elector.is_leader()]
            happen(dice, dice.choice(participants + 2 * leading), client, f"{namespace}/{LEASE}")
            pass_time(dice.choice([0.5, 4.0, 9.5]), *participants)
            for sleeper in participants:
                if sleeper.paused and dice.random() < 0.3:
                    sleeper.resume()
                    sleeper.settle()
        if client.get(LEASES, f"{namespace}/{LEASE}") is None:
            continue  # who comes now could not know that somebody led
        for index, participant in enumerate(participants):
            if not participant.thread.is_alive():
                participants[index] = newcomer().start()
                participants[index].settle()
    assert all(later(after, before) for before, after in pairwise(history)), f"seed {seed}: {history}"
    assert len(history) > 3, f"seed {seed}: {history}"


def happen(dice: random.Random, chosen: Participant, client: Client, lease: str) -> None:
    """Do something to a participant or to the Lease."""
    assert chosen.clock is not None
    match dice.randrange(6):
        case 0 | 1:
            chosen.pause()
        case 2:
            client.delete(LEASES, lease)
        case 3:
            chosen.end()
        case 4 if client.get(LEASES, lease) is not None:
            client.patch(LEASES, lease, {"metadata": {"annotations": {"dice": str(dice.random())}}})
        case _:
            chosen.clock.step_wall(dice.uniform(-100, 100))
