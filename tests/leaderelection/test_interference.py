"""Changes of a Lease and of clocks by others, and why one acts at most; on real API servers."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from distq.client import Client
from distq.errors import ApiError
from distq.leaderelection import LeaderElectionRecord, LeaseLock
from distq.leaderelection.observation import Observation
from tests.leaderelection.participants import (
    LEASE,
    LEASES,
    Enter,
    Participant,
    PausableClock,
    later,
    lease_of,
    one_acts_at_most,
    pass_time,
)
from tests.support.eventually import eventually


@pytest.mark.conformance("LE-07")
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


@pytest.mark.conformance("LE-07")
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


def test_a_deletion_is_no_release_to_a_candidate_that_knew_the_lease(
    enter: Enter, client: Client, namespace: str
) -> None:
    """Not even when the record was free as it was seen last: another may have taken it since."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    ada.end()
    eventually(bob.elector.may_act)
    client.delete(LEASES, f"{namespace}/{LEASE}")
    with one_acts_at_most(ada, bob):
        ada.restart().settle()
        assert len(ada.epochs) == 1
        pass_time(6.0, ada, bob)
    assert bob.elector.may_act()
    assert lease_of(client, namespace)["spec"]["holderIdentity"] == "bob"


def erase(client: Client, key: str, spec: dict[str, Any] | None) -> None:
    """Change the Lease's spec as ``kubectl patch`` does."""
    client.patch(LEASES, key, {"spec": spec})


def replace_by_bare_lease(client: Client, key: str, spec: None) -> None:
    """Delete the Lease, and make it as people do beforehand."""
    client.delete(LEASES, key)
    client.create(bare_lease(key.partition("/")[0]) | {"spec": spec})


@pytest.mark.conformance("LE-09")
@pytest.mark.parametrize(
    ("edit", "spec"),
    [
        (erase, {"holderIdentity": None}),
        (erase, {"holderIdentity": ""}),
        (erase, None),
        (replace_by_bare_lease, None),
    ],
    ids=["holder removed", "holder empty", "spec removed", "made anew"],
)
def test_a_holder_that_people_erase_did_not_release(
    enter: Enter, client: Client, namespace: str, edit: Callable[..., None], spec: dict[str, Any] | None
) -> None:
    """It acts until its next try, and then gives up; others wait as if it had died."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    pass_time(2.0, ada, bob)
    with one_acts_at_most(ada, bob):
        edit(client, f"{namespace}/{LEASE}", spec)
        eventually(lambda: bob.elector.get_leader() == "unknown")
        pass_time(2.0, ada, bob)
        ada.thread.join(20)
        pass_time(12.5, bob)
        assert (ada.stopped, bob.epochs) == (1, [])
        pass_time(5.0, bob)
        eventually(bob.elector.may_act)


@pytest.mark.conformance("LE-09")
def test_a_holder_erased_before_its_first_renewal_did_not_release(
    enter: Enter, client: Client, namespace: str
) -> None:
    """The times in its record are the same, as in a release; but not the duration."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    with one_acts_at_most(ada, bob):
        erase(client, f"{namespace}/{LEASE}", {"holderIdentity": None})
        eventually(lambda: bob.elector.get_leader() in {"unknown", "bob"})
        pass_time(14.5, ada, bob)
        assert bob.epochs == []
        pass_time(5.0, bob)
        eventually(bob.elector.may_act)


@pytest.mark.conformance("LE-09")
def test_a_candidate_that_finds_an_erased_holder_waits_too(
    enter: Enter, client: Client, namespace: str
) -> None:
    """The times in the record say that it was renewed, but not released."""
    ada = enter("ada").lead()
    pass_time(2.0, ada)
    erase(client, f"{namespace}/{LEASE}", {"holderIdentity": None})
    bob = enter("bob").follow()
    with one_acts_at_most(ada, bob):
        pass_time(14.5, ada, bob)
        assert bob.epochs == []
        pass_time(0.5, bob)
        eventually(bob.elector.may_act)


@pytest.mark.conformance("LE-05")
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


class GossipLock(LeaseLock):
    """A lock whose watch the test can call, too."""

    hear: Callable[[LeaderElectionRecord], None]

    @contextmanager
    def watch(self, on_record: Callable[[LeaderElectionRecord], None]) -> Iterator[None]:
        """Watch, and keep the function to call."""
        self.hear = on_record
        with super().watch(on_record):
            yield


class GossipClock(PausableClock):
    """A clock that delivers an old record whenever its elector looks at it, for a while."""

    hear: Callable[[], None] | None = None
    times = 100

    def monotonic(self) -> float:
        """Let the elector receive old news first."""
        hear, self.hear = self.hear, None  # the function that receives them looks at the clock, too
        if hear is not None and self.times:
            self.times -= 1
            hear()
        self.hear = hear
        return super().monotonic()


def test_old_news_from_the_watch_free_no_lease(enter: Enter, client: Client, namespace: str) -> None:
    """A watch may report a release long after another took the Lease, between any two steps."""
    clock = GossipClock()
    bob = enter("bob", GossipLock, clock=clock)
    ada = enter("ada").lead()
    before = datetime.now(UTC)
    released = LeaderElectionRecord(lease_duration=1.0, acquire_time=before, renew_time=before, version="1")
    bob.follow()
    assert isinstance(bob.lock, GossipLock)
    hear = bob.lock.hear
    with one_acts_at_most(ada, bob):
        clock.hear = lambda: hear(released)
        pass_time(6.0, ada, bob)
        client.delete(LEASES, f"{namespace}/{LEASE}")
        clock.times = 100
        pass_time(6.0, ada, bob)
    assert clock.times < 100
    assert bob.epochs == []
    assert ada.elector.may_act()


@pytest.mark.conformance("LE-08")
@pytest.mark.parametrize("leap", [3600.0, -3600.0])
def test_steps_of_the_wall_clock_change_nothing(enter: Enter, leap: float) -> None:
    """Neither the leader's nor the follower's: a living lease is kept, a dead one is taken in time."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    with one_acts_at_most(ada, bob):
        for clock in ada.time, bob.time:
            clock.step_wall(leap)
            pass_time(20.0, ada, bob)
            assert ada.elector.may_act()
            assert bob.epochs == []
        eventually(lambda: bob.elector._observed.record == ada.elector._observed.record)
        ada.pause()
        bob.time.step_wall(-2 * leap)
        pass_time(15.0, bob)
        eventually(bob.elector.may_act)


def bare_lease(namespace: str) -> dict[str, Any]:
    """Return a Lease that no process held yet."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": namespace},
    }


def test_a_bare_lease_can_be_taken(enter: Enter, client: Client, namespace: str) -> None:
    """As people make them beforehand, to grant rights on it."""
    client.create(bare_lease(namespace))
    ada = enter("ada").lead()
    pass_time(4.0, ada)
    assert ada.elector.may_act()


def test_a_lease_can_be_taken_with_any_count(enter: Enter, client: Client, namespace: str) -> None:
    """Another client wrote the greatest number that a Lease can have; the count stays there."""
    client.create(bare_lease(namespace) | {"spec": {"leaseTransitions": 2**31 - 1}})
    ada = enter("ada").start()
    eventually(ada.elector.may_act)
    assert lease_of(client, namespace)["spec"]["leaseTransitions"] == 2**31 - 1


def test_a_bare_lease_is_free_each_time_that_it_is_seen() -> None:
    """A watch and a read report the same one; after a term that was seen any candidate may take it."""
    bare = LeaderElectionRecord(holder_identity="", lease_duration=0.0)
    observed = Observation("ada", 15.0)
    for _ in range(2):
        observed.note(bare, 100.0)
        assert observed.remaining(100.0) <= 0
    observed.note(replace(bare, holder_identity="bob", renew_time=datetime.now(UTC)), 101.0)
    for _ in range(2):
        observed.note(bare, 102.0)
        assert observed.remaining(102.0) == 15.0


class LossyLock(LeaseLock):
    """A lock whose first writes succeed, but whose replies are lost."""

    lost = 2

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Create, and lose the reply."""
        return self._lose(LeaseLock.create, record, timeout)

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Update, and lose the reply."""
        return self._lose(LeaseLock.update, record, timeout)

    def _lose(self, write: Callable[..., LeaderElectionRecord], *args: Any) -> LeaderElectionRecord:
        record, timeout = args
        if not self.lost:
            return write(self, record, timeout=timeout)
        before = self._object
        write(self, record, timeout=timeout)
        self._object = before
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
    ada = enter("ada", LossyLock)
    assert isinstance(ada.lock, LossyLock)
    ada.lock.lost = 0
    ada.lead()
    ada.lock.lost = 2
    pass_time(9.0, ada)
    assert ada.lock.lost == 0
    assert ada.elector.may_act()
    assert len(ada.epochs) == 1


def test_under_random_faults_one_acts_at_most(enter: Enter, client: Client, namespace: str) -> None:
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
        lives = any(each.thread.is_alive() for each in participants)
        if lives and client.get(LEASES, f"{namespace}/{LEASE}") is None:
            continue  # a newcomer could not know now that there is a leader
        for index, participant in enumerate(participants):
            if not participant.thread.is_alive():
                participants[index] = newcomer().start()
                participants[index].settle()
    assert all(later(after, before) for before, after in pairwise(history)), f"seed {seed}: {history}"
    assert len(history) > 1, f"seed {seed}: {history}"


def happen(dice: random.Random, chosen: Participant, client: Client, lease: str) -> None:
    """Do something to a participant or to the Lease."""
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
            chosen.time.step_wall(dice.uniform(-100, 100))
