"""A stream's record is right about its leader: that it leads, or since when no process does."""

import pytest

from distq.testing.fake_clock import FakeClock
from tests.controller.leading import ON_ALL_SERVERS, Scene
from tests.informer.pods import stepping
from tests.support.eventually import eventually

pytestmark = [ON_ALL_SERVERS, pytest.mark.first_contact(12)]


def test_a_leader_that_leaves_is_gone_at_once_and_the_next_one_leads(scene: Scene) -> None:
    """Its end is known at once, without waiting for the lease that it released."""
    with scene.leading():
        assert gone_since(scene, later=14.0) is None
    left = gone_since(scene)
    assert left is not None
    assert abs(left - scene.connection.now()) < 10
    with scene.leading(epoch="2"):
        assert gone_since(scene) is None


def test_a_leader_that_was_killed_is_gone_when_its_lease_ran_out(scene: Scene) -> None:
    """It could not say so; its last commit is at most a second older than its end."""
    with scene.leading(lease_duration=20.0) as leader:
        leader.term.lasts = False
        eventually(leader.ended)
        assert gone_since(scene) is None
        ended = scene.connection.now()
        since = gone_since(scene, later=20.1)
        assert since is not None
        assert ended - 10 < since <= ended


def test_a_quiet_leader_is_seen_each_second(scene: Scene) -> None:
    """A leader that is shown as gone has gone, also where nothing happens for hours."""
    clock = FakeClock()
    with scene.leading(clock=clock):
        first = seen(scene)
        eventually(stepping(clock, lambda: seen(scene) > first + 5))
        assert clock.monotonic() < 60


def seen(scene: Scene) -> float:
    """Return when the stream's leader committed last, by the server's clock."""
    record = scene.record()
    assert record is not None
    return float(record.about["seen"])


def gone_since(scene: Scene, *, later: float = 0.0) -> float | None:
    """Return since when no process leads, as a reader sees it now or ``later``."""
    record = scene.record()
    assert record is not None
    return record.gone_since(scene.connection.now() + later)
