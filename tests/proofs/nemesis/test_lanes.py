"""Each fault is played once, whichever fleet is free for it."""

from tests.proofs.nemesis.catalogue import faults
from tests.proofs.nemesis.lanes import WORTH_A_FLEET, Group, Lanes, Planned

PLAN = [Planned(fault, fault.server, 2 if fault.limited else None) for fault in faults()]


def played(group: Group) -> list[str]:
    """Return the faults that one fleet plays to the end."""
    return [fault.name for fault in iter(group.pop, None)]


def test_each_fault_is_played_once() -> None:
    """On the server and in the topology that it wants; what spoils a fleet comes last."""
    lanes, found = Lanes(PLAN), list[str]()
    while group := lanes.next_group():
        assert all((group.kind, group.topology) == (each.server, each.topology) for each in group.left)
        assert all((group.limit is not None) == each.limited for each in group.left)
        spoiling = [each.spoils for each in group.left]
        assert spoiling == sorted(spoiling)
        found += played(group)
        lanes.leave(group)
    assert sorted(found) == sorted(each.fault.name for each in PLAN)


def test_a_free_fleet_helps_where_most_is_left() -> None:
    """Once each group has a fleet; not where too little is left."""
    lanes = Lanes(PLAN)
    first = lanes.next_group()
    assert first is not None
    groups = [first]
    while (group := lanes.next_group()) is not first:
        assert group is not None
        groups.append(group)
    assert len(groups) == len({(kind, fault.topology, limit) for fault, kind, limit in PLAN})
    for group in groups:
        while len(group.left) >= WORTH_A_FLEET:
            group.pop()
    assert lanes.next_group() is None


def test_the_faults_that_a_broken_fleet_leaves_are_played_by_another() -> None:
    """However little it is."""
    two = [Planned(fault, "redis7") for fault in faults() if fault.topology == "one server"][:2]
    lanes = Lanes(two)
    group = lanes.next_group()
    assert group is not None
    assert group.pop() is two[0].fault
    assert lanes.next_group() is None
    lanes.leave(group)
    assert lanes.next_group() is group
    assert group.pop() is two[1].fault
