"""The leader, and the start and end of its term; on real API servers, with time that the tests let pass."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from distq.client import Client
from distq.errors import ApiError, LeaseLost
from distq.leaderelection import LeaderElectionRecord, LeaseLock
from tests.leaderelection.participants import (
    Enter,
    later,
    lease_of,
    one_acts_at_most,
    pass_time,
)
from tests.support.eventually import eventually


@pytest.mark.conformance("LE-03", "LE-07")
def test_the_first_to_come_leads(enter: Enter, client: Client, namespace: str) -> None:
    """It creates the Lease, and its epoch is the version of that write."""
    ada = enter("ada").lead()
    assert ada.elector.is_leader()
    assert ada.elector.may_act()
    assert ada.elector.get_leader() == "ada"
    assert ada.epochs == [lease_of(client, namespace)["metadata"]["resourceVersion"]]
    assert not ada.terms[0].is_set()
    assert ada.stopped == 0


@pytest.mark.conformance("LE-10")
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


@pytest.mark.conformance("LE-04", "LE-08", "LE-09", "LE-10")
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


@pytest.mark.conformance("LE-05")
def test_a_leader_that_was_paused_never_acts_again(enter: Enter) -> None:
    """It knows by its own clock, before it learns of its successor; its term ends once."""
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
    pass_time(7.5, ada, bob)  # which leaves a real request 2.5 real seconds
    ada.resume()
    ada.settle()
    pass_time(14.0, ada, bob)
    assert ada.elector.may_act()
    assert bob.epochs == []


@pytest.mark.conformance("LE-04", "LE-12")
def test_a_release_is_taken_up_without_waiting(enter: Enter, client: Client, namespace: str) -> None:
    """The watch informs the follower: no time passes at all."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    with one_acts_at_most(ada, bob):
        ada.end()
        eventually(bob.elector.may_act)
    assert (ada.stopped, ada.terms[0].is_set()) == (1, True)
    assert later(bob.elector.epoch, ada.elector.epoch)
    spec = lease_of(client, namespace)["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("bob", 1)


@pytest.mark.conformance("LE-12")
def test_a_released_record_is_client_go_s(enter: Enter, client: Client, namespace: str) -> None:
    """It has no holder, for one second, and the transitions stay."""
    ada = enter("ada").lead()
    ada.end()
    spec = lease_of(client, namespace)["spec"]
    assert spec["holderIdentity"] == ""
    assert spec["leaseDurationSeconds"] == 1
    assert spec["leaseTransitions"] == 0
    assert spec["acquireTime"] == spec["renewTime"]


@pytest.mark.conformance("LE-12")
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


class UnwatchedLock(LeaseLock):
    """A lock whose account may not watch."""

    @contextmanager
    def watch(self, on_record: object) -> Iterator[None]:  # noqa: ARG002 - the protocol's
        """Report nothing."""
        yield


@pytest.mark.conformance("LE-04")
def test_a_follower_that_may_not_watch_looks_now_and_then(enter: Enter) -> None:
    """After at most 2.2 retry periods, as client-go's do."""
    ada, bob = enter("ada").lead(), enter("bob", UnwatchedLock).follow()
    ada.end()
    pass_time(4.4, bob)
    eventually(bob.elector.may_act)


@pytest.mark.conformance("LE-03")
def test_a_follower_ends_when_it_is_stopped(enter: Enter) -> None:
    """Without a term no callback is called."""
    enter("ada").lead()
    bob = enter("bob").follow()
    bob.end()
    assert (bob.epochs, bob.stopped) == ([], 0)


@pytest.mark.conformance("LE-09")
def test_the_record_says_how_long_it_holds(enter: Enter) -> None:
    """A follower with shorter settings waits for the leader's longer lease."""
    ada = enter("ada").lead()
    with_short_timeouts = enter("bob", lease_duration=4.0, renew_deadline=3.0, retry_period=1.0).follow()
    ada.pause()
    pass_time(14.5, with_short_timeouts)
    assert with_short_timeouts.epochs == []
    pass_time(0.5, with_short_timeouts)
    eventually(with_short_timeouts.elector.may_act)


def test_a_failure_of_the_leader_s_work_frees_the_lease(enter: Enter, client: Client, namespace: str) -> None:
    """run() raises it, after the end of the term: no process leads without working."""

    def fail(_: threading.Event) -> None:
        raise RuntimeError("no work today")

    ada = enter("ada", on_started_leading=fail).start()
    ada.thread.join(20)
    assert str(ada.error) == "no work today"
    assert ada.stopped == 1
    assert lease_of(client, namespace)["spec"]["holderIdentity"] == ""


@pytest.mark.conformance("LE-12")
def test_a_lease_is_not_released_under_work_that_goes_on(
    enter: Enter, client: Client, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Work that does not heed the end of its term keeps others away until the lease runs out."""
    finish = threading.Event()

    def work(_: threading.Event) -> None:
        finish.wait(20)

    settings = {"lease_duration": 1.5, "renew_deadline": 0.5, "retry_period": 0.2}
    ada = enter("ada", on_started_leading=work, **settings).start()
    eventually(ada.elector.may_act)
    ada.end()
    finish.set()
    assert ada.stopped == 1
    assert lease_of(client, namespace)["spec"]["holderIdentity"] == "ada"
    assert "on_started_leading still runs" in caplog.text


@pytest.mark.conformance("LE-03")
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
    ada.restart()
    eventually(lambda: len(ada.epochs) == 2)
    assert later(ada.elector.epoch, first)
    ada.end()
    assert ada.stopped == 2


@pytest.mark.conformance("LE-11")
def test_each_new_leader_is_announced_once(enter: Enter) -> None:
    """To leaders and followers alike; empty after a release."""
    ada, bob = enter("ada").lead(), enter("bob").follow()
    ada.end()
    eventually(bob.elector.may_act)
    eventually(lambda: sorted(bob.leaders) == ["", "ada", "bob"])
    assert sorted(ada.leaders) == ["", "ada"]


class StuckLock(LeaseLock):
    """A lock whose updates can hang."""

    go_on: threading.Event | None = None
    """Set before an update, it hangs until this is set."""

    def update(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Hang on demand, then fail."""
        if self.go_on is not None:
            self.go_on.wait(20)
            raise ApiError("hung")
        return super().update(record, timeout=timeout)


@pytest.mark.conformance("LE-13")
def test_the_health_check_sees_a_leader_that_hangs(enter: Enter) -> None:
    """It fails once the lease expired longer ago than is tolerated; a follower is always healthy."""
    ada, bob = enter("ada", StuckLock).lead(), enter("bob").follow()
    assert isinstance(ada.lock, StuckLock)
    go_on = ada.lock.go_on = threading.Event()
    ada.time.step(2.0)
    ada.time.step(13.0)
    ada.elector.check()
    ada.time.step(1.0)
    assert not ada.elector.may_act()
    with pytest.raises(LeaseLost, match=r"not renewed for 16 s"):
        ada.elector.check()
    ada.elector.check(max_tolerable_expired_lease=1.0)
    bob.elector.check()
    ada.lock.go_on = None
    go_on.set()
