"""What the nemesis judges by: each thing that must not be is seen, and nothing else is."""

from dataclasses import replace

import pytest

from tests.proofs.nemesis import judge
from tests.proofs.nemesis.catalogue import faults
from tests.proofs.nemesis.journal import Add, Attempt, Change, Reconcile

RUN = Reconcile("jobs", "one", fence=1, began=10.0, process="worker-1", ended=11.0, kept=True)
SEEN = replace(RUN, queue="maps", key="ns/map", seen="7")


@pytest.mark.parametrize(
    ("runs", "is_met"),
    [
        ([RUN], True),
        ([replace(RUN, began=8.0)], False),
        ([replace(RUN, kept=False)], False),
        ([replace(RUN, key="other")], False),
        ([replace(RUN, queue="maps")], False),
        ([replace(RUN, began=8.0), replace(RUN, fence=2, began=9.5)], True),
        ([], False),
    ],
)
def test_an_add_is_met_by_a_run_that_began_later_and_went_to_its_end(
    runs: list[Reconcile], is_met: bool
) -> None:
    """Not by an earlier one, by one that failed, or by another key's."""
    add = Add("one", asked=9.0, answered=9.1)
    assert judge.unmet([add], runs) == ([] if is_met else [add])


@pytest.mark.parametrize(
    ("runs", "is_seen"),
    [
        ([SEEN], True),
        ([SEEN, replace(SEEN, fence=2, began=12.0, seen="6")], False),
        ([SEEN, replace(SEEN, fence=2, began=12.0, seen="gone", kept=False)], True),
        ([replace(SEEN, seen="gone")], False),
        ([], False),
    ],
)
def test_the_last_state_of_an_object_is_seen_last(runs: list[Reconcile], is_seen: bool) -> None:
    """Any number of states before it may be skipped."""
    changes = [Change("ns/map", 6, gone=True, asked=1.0), Change("ns/map", 7, gone=False, asked=2.0)]
    assert judge.unseen(changes, runs) == ([] if is_seen else ["ns/map"])


def test_an_object_that_came_and_went_unseen_needs_no_reconcile() -> None:
    """Between two lists of what there is; after a reconcile that saw it, one sees that it is gone."""
    changes = [Change("ns/map", 6, gone=False, asked=1.0), Change("ns/map", 7, gone=True, asked=2.0)]
    assert judge.unseen(changes, []) == []
    assert judge.unseen(changes, [replace(SEEN, seen="6")]) == ["ns/map"]


def test_two_runs_of_a_key_at_a_time_overlap() -> None:
    """For as long as both run; one that never ended runs for ever."""
    open_run = replace(RUN, ended=None)
    later = replace(RUN, fence=2, process="worker-2", began=10.4, ended=10.9)
    assert [pair.seconds for pair in judge.overlaps([RUN, later], {})] == [pytest.approx(0.5)]
    assert [pair.seconds for pair in judge.overlaps([later, open_run], {})] == [pytest.approx(0.5)]
    assert not list(judge.overlaps([RUN, replace(later, key="two")], {}))
    assert not list(judge.overlaps([RUN, replace(later, began=11.0, ended=12.0)], {}))


def test_a_frozen_process_runs_only_before_and_after() -> None:
    """A run of another process overlaps with the frozen one's work after the freeze, not with the freeze."""
    frozen = {"worker-1": [(10.2, 10.8)]}
    meanwhile = replace(RUN, fence=2, process="worker-2", began=10.3, ended=10.7)
    assert not list(judge.overlaps([RUN, meanwhile], frozen))
    (pair,) = judge.overlaps([RUN, replace(meanwhile, ended=10.9)], frozen)
    assert pair.seconds == pytest.approx(0.1)


def test_more_items_of_a_namespace_than_its_limit_are_a_crowd() -> None:
    """For as long as they run at the same time; other namespaces are no part of it."""
    runs = [replace(RUN, key=f"slow/{number}", began=10 + number / 10) for number in range(3)]
    (crowd,) = judge.crowds([*runs, replace(RUN, key="quick/1"), RUN], {}, limit=2)
    assert (crowd.namespace, len(crowd.runs)) == ("slow", 3)
    assert crowd.seconds == pytest.approx(0.8)
    assert not list(judge.crowds(runs, {}, limit=3))
    assert [len(each.runs) for each in judge.crowds([*runs, RUN], {}, limit=0)] == [3, 1]
    assert not list(judge.crowds([*runs[:2], replace(runs[2], began=11.0, ended=12.0)], {}, limit=2))


def test_a_zombie_is_no_part_of_a_crowd() -> None:
    """Its claim ended before a later one of its key ran; nor is a frozen run, until it goes on."""
    zombie = replace(RUN, key="slow/1", ended=20.0)
    again = replace(zombie, process="worker-2", fence=2, began=12.0, ended=13.0)
    other = replace(again, key="slow/2")
    assert not list(judge.crowds([zombie, again, other], {}, limit=2))
    assert list(judge.crowds([zombie, again, other], {}, limit=1))
    assert not list(judge.crowds([zombie, other], {"worker-1": [(11.0, 13.0)]}, limit=1))
    (crowd,) = judge.crowds([zombie, other], {"worker-1": [(11.0, 12.8)]}, limit=1)
    assert crowd.seconds == pytest.approx(0.2)


def test_a_settlement_after_the_next_one_began_is_a_zombies() -> None:
    """If it was accepted, and first tried when a later claim already ran."""
    late = Attempt("jobs", "one", fence=1, tried=13.0, accepted=True)
    runs = [RUN, replace(RUN, fence=2, began=12.0)]
    assert judge.zombies([late], runs) == [late]
    assert not judge.zombies([replace(late, accepted=False)], runs)
    assert not judge.zombies([replace(late, tried=11.5)], runs)
    assert not judge.zombies([replace(late, fence=2)], runs)


def test_fences_grow() -> None:
    """A run whose fence is that of an earlier one, or lower, is found."""
    stale = replace(RUN, began=12.0, ended=13.0)
    assert judge.stale_fences([RUN, stale]) == [stale]
    assert not judge.stale_fences([RUN, replace(stale, fence=2)])


def test_a_claim_that_redis_forgot_may_run_late_for_as_long_as_two_may_overlap() -> None:
    """Its process learns of it by the next heartbeat, and may begin it before that."""
    late = replace(RUN, fence=RUN.fence - 1, began=RUN.began + 2.0, ended=RUN.began + 3.0)
    short = replace(RUN, ended=RUN.began + 0.5)
    assert not judge.stale_fences([short, late], 2.5)
    assert judge.stale_fences([short, late], 2.0) == [late]


def test_all_is_healed_when_the_last_overdue_item_began() -> None:
    """Adds, changes, and runs that were cut off; and when adds are acknowledged again."""
    add = Add("one", asked=9.0, answered=9.1)
    again = Add("two", asked=9.6, answered=10.5)
    change = Change("ns/map", 7, gone=False, asked=9.0, answered=9.1)
    cut_off = replace(RUN, key="three", began=9.0, ended=9.5, kept=False)
    resumed = replace(RUN, key="three", began=14.0, fence=2)
    assert judge.healing([add], [], [RUN], 9.5) == pytest.approx(0.5)
    assert judge.healing([add, again], [], [RUN], 9.5) == pytest.approx(1.0)
    assert judge.healing([], [change], [replace(SEEN, began=12.0)], 9.5) == pytest.approx(2.5)
    assert judge.healing([], [], [cut_off, resumed], 9.5) == pytest.approx(4.5)
    assert judge.healing([add], [], [replace(RUN, began=9.3)], 9.5) == 0.0
    late = Add("late", asked=10.0, answered=10.1)
    assert judge.healing([late], [], [replace(RUN, key="late", began=15.5)], 9.5) == pytest.approx(6.0)
    assert judge.healing([late], [], [replace(RUN, key="late", began=10.3)], 9.5) == pytest.approx(0.6)


def test_every_fault_describes_its_action_and_its_requirement() -> None:
    """By the name that it has in the catalogue, on a server of those on which it is possible."""
    for fault in faults():
        assert fault.what, fault.name
        assert fault.required, fault.name
        assert fault.server in fault.servers, fault.name
