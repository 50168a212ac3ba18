"""What an elector asks of its lock, call by call, and its callbacks; in memory, where each call can fail."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from distq.errors import ApiError, ConfigError, Conflict, LeaseLost
from distq.leaderelection import LeaderElectionConfig, LeaderElectionRecord, LeaderElector
from distq.metrics import LEADER, LEADER_SLOW_PATH
from distq.testing import FakeLock
from tests.leaderelection.participants import (
    Participant,
    PausableClock,
    end_all,
    pass_time,
)
from tests.support.eventually import eventually
from tests.support.recorded_metrics import RecordedMetrics

Enter = Callable[..., Participant]
CONFLICT = Conflict("the record changed", status=409)
NO_ANSWER = ApiError("no answer")


@pytest.fixture
def enter() -> Iterator[Enter]:
    """Give a function that makes a participant on a FakeLock, and end them all after the test."""
    entered: list[Participant] = []

    def make(lock: FakeLock, **settings: Any) -> Participant:
        made = Participant(lock, clock=PausableClock(), **settings)
        entered.append(made)
        return made

    yield make
    for each in entered:
        assert isinstance(each.lock, FakeLock)
        each.lock.unreachable = None
    end_all(entered)


def lock_of(participant: Participant) -> FakeLock:
    """Return the lock of a participant."""
    assert isinstance(participant.lock, FakeLock)
    return participant.lock


@pytest.mark.conformance("LE-06", "LE-07")
def test_a_leader_renews_without_reading(enter: Enter) -> None:
    """It reads once, creates the record, and from then on updates the version that it knows."""
    ada = enter(FakeLock("ada")).lead()
    pass_time(4.0, ada)
    assert lock_of(ada).asked == ["get", "create", "update", "update"]


@pytest.mark.conformance("LE-06", "LE-15")
def test_a_leader_reads_after_a_conflict(enter: Enter) -> None:
    """At once, and writes again; the next renewals need no read. The metric counts it."""
    metrics = RecordedMetrics()
    ada = enter(FakeLock("ada"), metrics=metrics, name="foos").lead()
    pass_time(2.0, ada)
    lock_of(ada).failures.append(CONFLICT)
    pass_time(4.0, ada)
    assert lock_of(ada).asked == ["get", "create", "update", "update", "get", "update", "update"]
    assert metrics.counters[LEADER_SLOW_PATH, ("foos",)] == 1
    assert ada.elector.may_act()


@pytest.mark.conformance("LE-15")
def test_whether_it_leads_is_a_metric(enter: Enter) -> None:
    """1 for the leader, 0 for a follower, under the election's name, while it competes."""
    metrics = RecordedMetrics()
    ada = enter(FakeLock("ada"), metrics=metrics).lead()
    assert metrics.gauges() == {(LEADER, ("fake",)): 1}
    others = RecordedMetrics()
    bob = enter(FakeLock("bob", rival_of=lock_of(ada)), metrics=others).follow()
    assert others.gauges() == {(LEADER, ("fake",)): 0}
    assert others.counters[LEADER_SLOW_PATH, ("fake",)] == 0
    bob.end()
    ada.end()
    assert metrics.gauges() == others.gauges() == {}


@pytest.mark.conformance("LE-12")
@pytest.mark.parametrize("failure", [CONFLICT, NO_ANSWER], ids=["conflicts", "no answer"])
def test_a_release_reads_first_and_survives_failures(enter: Enter, failure: ApiError) -> None:
    """Others may write to the object at that moment, or the API server restart: it is tried again."""
    ada = enter(FakeLock("ada")).lead()
    lock_of(ada).asked.clear()
    lock_of(ada).failures += [failure] * 3
    ada.stop.set()
    while ada.thread.is_alive():
        ada.settle()
        pass_time(0.5, ada)
    assert lock_of(ada).asked[-2:] == ["get", "update"]
    assert lock_of(ada).failures == []
    record = lock_of(ada).record
    assert record is not None
    assert record.holder_identity == ""


@pytest.mark.conformance("LE-12")
@pytest.mark.parametrize("failure", [CONFLICT, NO_ANSWER], ids=["conflicts", "no answer"])
def test_a_release_that_cannot_be_is_given_up(
    enter: Enter, failure: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    """At the deadline; the lease then runs out."""
    ada = enter(FakeLock("ada")).lead()
    lock_of(ada).unreachable = failure
    ada.stop.set()
    passed = 0.0
    while ada.thread.is_alive():
        ada.settle()
        pass_time(0.5, ada)
        passed += 0.5
    assert f"not released, it will expire: {failure}" in caplog.text
    assert passed < 15.0, "the lease has run out by then"
    lock_of(ada).unreachable = None
    bob = enter(FakeLock("bob", rival_of=lock_of(ada))).follow()
    pass_time(15.0, bob)
    eventually(bob.elector.may_act)


@pytest.mark.conformance("LE-12")
def test_no_shutdown_outlasts_the_renew_deadline(enter: Enter) -> None:
    """It counts from the last renewal: no process waits for a release after the lease has run out anyway."""
    ada = enter(FakeLock("ada")).lead()
    lock_of(ada).unreachable = NO_ANSWER
    pass_time(6.0, ada)
    ada.stop.set()
    ada.settle()
    pass_time(4.0, ada)
    ada.thread.join(20)
    assert not ada.thread.is_alive()


def test_an_elector_that_gets_no_answer_reports_it_again_and_again(
    enter: Enter, caplog: pytest.LogCaptureFixture
) -> None:
    """The log shows an hour later that this process cannot lead, since when and why."""
    ada = enter(FakeLock("ada"))
    lock_of(ada).unreachable = NO_ANSWER
    ada.start()
    pass_time(60.0, ada)
    reports = [text for text in caplog.messages if "Trying again" in text]
    assert len(reports) == 3  # at once, after 10 s and after 30 s
    assert all(str(NO_ANSWER) in text for text in reports)
    assert "it fails since" in reports[-1]
    lock_of(ada).unreachable = None
    pass_time(5.0, ada)
    assert "works again after 1m" in caplog.text


def test_a_release_has_a_second_also_after_the_deadline(enter: Enter) -> None:
    """The API server answers again, and others need not wait."""
    ada = enter(FakeLock("ada")).lead()
    write, timeouts = lock_of(ada).update, list[float]()

    def hang(record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        timeouts.append(timeout)
        if len(timeouts) > 1:
            return write(record, timeout=timeout)
        ada.time.step(20.0)
        ada.stop.set()
        raise NO_ANSWER

    lock_of(ada).update = hang  # type: ignore[method-assign]  # one call that hangs
    ada.time.step(2.0)
    ada.thread.join(20)
    assert timeouts == [5.0, 1.0]
    record = lock_of(ada).record
    assert record is not None
    assert record.holder_identity == ""


@pytest.mark.conformance("LE-03")
def test_run_raises_the_error_that_ended_the_work_also_when_both_callbacks_fail(enter: Enter) -> None:
    """The second error is logged as what happened meanwhile, and the lease is released."""

    def started(over: threading.Event) -> None:
        raise ValueError("work broke")

    def stopped() -> None:
        raise KeyError("stopped broke")

    ada = enter(FakeLock("ada"), on_started_leading=started, on_stopped_leading=stopped).start()
    ada.thread.join(20)
    assert isinstance(ada.error, ValueError)
    assert isinstance(ada.error.__context__, KeyError)
    record = lock_of(ada).record
    assert record is not None
    assert record.holder_identity == ""


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Give a function after which no thread starts whose name begins so, as where there are too many."""
    start = threading.Thread.start

    def refuse(names: str) -> None:
        def start_others(thread: threading.Thread) -> None:
            if thread.name.startswith(names):
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_others)

    return refuse


def test_an_elector_that_cannot_start_the_work_leaves_the_lease_to_others(
    enter: Enter, no_threads: Callable[[str], None]
) -> None:
    """The term ends as others do, and ``run`` says why."""
    no_threads("distq-leading")
    ada = enter(FakeLock("ada")).start()
    ada.thread.join(20)
    assert str(ada.error) == "can't start new thread"
    assert (ada.stopped, ada.elector.is_leader()) == (1, False)
    record = lock_of(ada).record
    assert record is not None
    assert record.holder_identity == ""


def test_an_elector_that_cannot_report_its_term_leads_nevertheless(
    enter: Enter, no_threads: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Callbacks and events that have no thread are given up, and that is said."""
    no_threads("distq-election-report")
    ada = enter(FakeLock("ada")).lead()
    assert lock_of(ada).asked == ["get", "create"]
    pass_time(4.0, ada)
    assert ada.elector.may_act()
    ada.end()
    assert (ada.error, ada.stopped) == (None, 1)
    assert """could not report "ada": can't start new thread""" in caplog.text
    assert """could not report "ada became leader": can't start new thread""" in caplog.text


def test_the_work_of_a_lost_term_does_not_end_the_next(
    enter: Enter, caplog: pytest.LogCaptureFixture
) -> None:
    """It may fail when it likes, also when the same elector leads again; that is said."""
    go_on, fails = threading.Event(), threading.Event()

    def work(over: threading.Event) -> None:
        over.wait()
        if not go_on.is_set():
            go_on.wait()
            fails.set()
            raise RuntimeError("as the test wants")

    ada = enter(FakeLock("ada"), on_started_leading=work).start()
    eventually(ada.elector.may_act)
    record = lock_of(ada).record
    assert record is not None
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    free = replace(record, holder_identity="", lease_duration=1.0, acquire_time=long_ago, renew_time=long_ago)
    lock_of(ada).record = free
    pass_time(4.0, ada)
    ada.thread.join(20)
    ada.restart()
    eventually(ada.elector.may_act)
    go_on.set()
    fails.wait(20)
    eventually(lambda: "the work of a term failed after its end: RuntimeError" in caplog.text)
    pass_time(4.0, ada)
    assert ada.elector.may_act()
    ada.end()
    assert ada.error is None


def test_a_lock_serves_one_elector_at_a_time(enter: Enter) -> None:
    """Two of one lock would both lead, and so would two runs of one elector; after a run it is free again."""
    ada = enter(FakeLock("ada")).lead()
    nothing: dict[str, Any] = {"on_started_leading": lambda _: None, "on_stopped_leading": lambda: None}
    twin = LeaderElector(LeaderElectionConfig(lock=ada.lock, **nothing))
    for elector in ada.elector, twin:
        with pytest.raises(ConfigError, match="a lock of its own, and run it once at a time"):
            elector.run(threading.Event())
    assert ada.elector.may_act()
    ada.end()
    stopped = threading.Event()
    stopped.set()
    twin.run(stopped)


def test_another_process_of_the_same_name_is_logged_as_that(
    enter: Enter, caplog: pytest.LogCaptureFixture
) -> None:
    """The loser says that the identity is not its own."""
    ada = enter(FakeLock("ada")).lead()
    record = lock_of(ada).record
    assert record is not None
    lock_of(ada).record = replace(record, acquire_time=datetime(2026, 1, 1, tzinfo=UTC))
    pass_time(4.0, ada)
    eventually(lambda: not ada.elector.is_leader())
    assert 'another process is "ada", too. Give each an identity of its own' in caplog.text


@pytest.mark.conformance("LE-12")
def test_a_record_of_another_is_not_released(enter: Enter) -> None:
    """It may have been taken just before."""
    ada = enter(FakeLock("ada")).lead()
    record = lock_of(ada).record
    assert record is not None
    lock_of(ada).record = replace(record, holder_identity="bob")
    ada.end()
    assert lock_of(ada).record == replace(record, holder_identity="bob")


@pytest.mark.conformance("LE-08", "LE-09", "LE-10")
@pytest.mark.parametrize(
    ("holder", "waits"), [("bob", True), ("", False), ("ada", False)], ids=["led", "free", "my own"]
)
def test_a_present_record_is_taken_if_it_is_free_or_lapsed(enter: Enter, holder: str, *, waits: bool) -> None:
    """One with a leader must not change for as long as it says; a free one, or my own, is taken at once."""
    lock = FakeLock("ada")
    lock.record = LeaderElectionRecord(holder_identity=holder, lease_duration=40.0, leader_transitions=3)
    ada = enter(lock).start()
    ada.settle()
    if waits:
        pass_time(39.5, ada)
        assert ada.epochs == []
        pass_time(0.5, ada)
    eventually(ada.elector.may_act)
    record = lock.record
    assert (record.holder_identity, record.lease_duration) == ("ada", 15.0)
    assert record.leader_transitions == (3 if holder == "ada" else 4)
    assert record.acquire_time == record.renew_time


@pytest.mark.conformance("LE-08", "LE-09")
def test_a_renewal_starts_the_wait_anew(enter: Enter) -> None:
    """Its time does not matter: the record has to be another one."""
    lock = FakeLock("ada")
    lock.record = LeaderElectionRecord(holder_identity="bob", lease_duration=15.0)
    ada = enter(lock).follow()
    pass_time(14.0, ada)
    lock.record = LeaderElectionRecord(holder_identity="bob", lease_duration=15.0, leader_transitions=1)
    pass_time(14.5, ada)
    assert ada.epochs == []
    pass_time(0.5, ada)
    eventually(ada.elector.may_act)


@pytest.mark.conformance("LE-05")
def test_a_leader_that_reaches_no_server_stops_at_its_deadline(enter: Enter) -> None:
    """It tries each retry period until then, and does not release."""
    ada = enter(FakeLock("ada")).lead()
    lock_of(ada).asked.clear()
    lock_of(ada).unreachable = ApiError("no answer")
    pass_time(9.5, ada)
    assert ada.elector.is_leader()
    assert lock_of(ada).asked == ["update"] * 4
    pass_time(0.5, ada)
    ada.thread.join(20)
    assert (ada.stopped, ada.terms[0].is_set()) == (1, True)
    assert lock_of(ada).asked == ["update"] * 4


@pytest.mark.conformance("LE-13")
def test_the_health_check_bears_the_name(enter: Enter) -> None:
    """So that a probe says which election it is; before any term there is nothing to fail."""
    ada = enter(FakeLock("ada"), name="foos")
    ada.elector.check()
    ada.lead()
    go_on = threading.Event()
    update = lock_of(ada).update

    def hang(record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        go_on.wait(20)
        return update(record, timeout=timeout)

    lock_of(ada).update = hang  # type: ignore[method-assign]  # one call that hangs
    ada.time.step(2.0)
    ada.time.step(14.0)
    with pytest.raises(LeaseLost, match=r"lease foos: not renewed for 16 s"):
        ada.elector.check()
    ada.elector.check(max_tolerable_expired_lease=1.0)
    go_on.set()


@pytest.mark.conformance("LK-06")
def test_calls_may_take_half_the_deadline(enter: Enter) -> None:
    """At least a second, and for a leader never longer than its deadline."""
    lock = FakeLock("ada")
    timeouts: list[float] = []
    update = lock.update

    def note(record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        timeouts.append(timeout)
        return update(record, timeout=timeout)

    lock.update = note  # type: ignore[method-assign]  # to look on
    ada = enter(lock).lead()
    lock.unreachable = ApiError("no answer")
    pass_time(9.0, ada)
    assert timeouts == pytest.approx([5.0, 5.0, 4.0, 2.0])
    lock.unreachable = None
    short = FakeLock("bob")
    bob = enter(short, lease_duration=1.5, renew_deadline=1.0, retry_period=0.2)
    assert bob.elector._timeout() == 1.0


@pytest.mark.conformance("LK-01")
def test_both_ends_of_a_term_are_reported(enter: Enter) -> None:
    """To the people who look at the lock."""
    ada = enter(FakeLock("ada")).lead()
    ada.end()
    eventually(lambda: len(lock_of(ada).events) == 2)
    assert sorted(lock_of(ada).events) == ["ada became leader", "ada stopped leading"]
