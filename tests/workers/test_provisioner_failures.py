"""What a provisioner raises says how far it got, and where a process dies another one goes on."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from distq import Client, key_of
from distq.controller.event import Event
from distq.errors import ApiError, Conflict
from distq.testing import FakeClock, MemoryQueue
from tests.workers.provisioning import QUICKLY, Object, Play, new_claim
from workers.provisioner import (
    IgnoredError,
    InfeasibleError,
    ProvisioningFinished,
    ProvisioningInBackground,
    ProvisioningNoChange,
    ProvisioningReschedule,
)
from workers.provisioner.fields import SELECTED_NODE, pv_name
from workers.provisioner.provision_controller import (
    CHANGED_CLAIM,
    CLAIM,
    CLAIM_FINALIZER,
    DEFAULT_RATE_LIMITER,
)


def test_a_failed_provision_is_tried_again_and_the_claim_may_go(begin: Callable[..., Play]) -> None:
    """Nothing was left behind, so nothing has to be waited for."""
    failing = begin()
    claim = failing.claim()
    failing.storage.outcomes.append(ProvisioningFinished("the disk is full"))
    assert isinstance(failing.fail(), ProvisioningFinished)
    assert not failing.is_held(claim)
    assert failing.events(claim) == ["Provisioning", "ProvisioningFailed"]
    failing.again(claim)
    failing.run()
    assert failing.volume(claim)


@pytest.mark.parametrize("error", [ProvisioningInBackground("it takes time"), OSError("no answer")])
def test_a_claim_waits_for_a_provision_in_the_background(
    begin: Callable[..., Play], error: Exception
) -> None:
    """Also where the provisioner does not know: it is asked until it does."""
    slow = begin()
    claim = slow.claim()
    slow.storage.outcomes.append(error)
    assert slow.fail() is error
    assert slow.is_held(claim)
    slow.storage.outcomes.append(ProvisioningFinished("it was in vain"))
    slow.again(claim)
    slow.fail()
    assert not slow.is_held(claim)


def test_a_claim_that_is_deleted_meanwhile_leaves_no_volume(begin: Callable[..., Play]) -> None:
    """A running provision is followed to its end; then the volume is there, released, and deleted."""
    deleted = begin(rate_limiter=QUICKLY)
    claim = deleted.claim()

    def go_on() -> None:
        deleted.kubernetes.delete(claim)
        raise ProvisioningInBackground("it takes time")

    deleted.storage.outcomes += [go_on, ProvisioningInBackground("it still does")]
    deleted.retry()
    assert deleted.stored(claim) is None
    assert deleted.storage.volumes == {pv_name(claim)}
    assert len({options.pv_name for options in deleted.storage.asked}) == 1
    deleted.kubernetes.say(pv_name(claim), "Released")
    deleted.run()
    assert deleted.storage.volumes == set()


@pytest.mark.parametrize(("before", "held"), [([], False), ([ProvisioningInBackground("yes")], True)])
def test_a_storage_that_was_not_reached_changes_nothing(
    begin: Callable[..., Play], before: list[Exception], held: bool
) -> None:
    """A running provision goes on, and none is begun."""
    unreached = begin()
    claim = unreached.claim()
    unreached.storage.outcomes += [*before, *[ProvisioningNoChange("no route")] * 5]
    for _ in range(2):
        unreached.fail()
        unreached.again(claim)
    assert unreached.is_held(claim) == held


def test_another_node_is_asked_for(begin: Callable[..., Play]) -> None:
    """The scheduler's choice is taken back, and the claim waits for the next one without a failure."""
    full = begin(of_class={"volumeBindingMode": "WaitForFirstConsumer"})
    claim = full.claim()
    full.kubernetes.select(claim, "node-1")
    full.storage.outcomes.append(ProvisioningReschedule("node-1 is full"))
    full.run()
    stored = full.stored(claim)
    assert stored is not None
    assert SELECTED_NODE not in stored["metadata"]["annotations"]
    assert not full.is_held(claim)
    assert full.item(claim) is None
    full.kubernetes.select(claim, "node-2")
    full.run()
    assert [options.selected_node_name for options in full.storage.asked] == ["node-1", "node-2"]
    assert full.events(claim) == sorted(
        ["Provisioning", "ProvisioningFailed", "Provisioning", "ProvisioningSucceeded"]
    )


def test_a_choice_that_was_made_meanwhile_stays(begin: Callable[..., Play]) -> None:
    """The scheduler was faster: its new node is tried."""
    full = begin(of_class={"volumeBindingMode": "WaitForFirstConsumer"}, rate_limiter=QUICKLY)
    claim = full.claim()
    full.kubernetes.select(claim, "node-1")

    def choose_another() -> None:
        full.kubernetes.select(claim, "node-2")
        raise ProvisioningReschedule("node-1 is full")

    full.storage.outcomes.append(choose_another)
    full.retry()
    assert [options.selected_node_name for options in full.storage.asked] == ["node-1", "node-2"]
    assert full.volume(claim)


def test_without_a_node_there_is_none_to_choose(begin: Callable[..., Play]) -> None:
    """It is a failure like others."""
    anywhere = begin()
    claim = anywhere.claim()
    anywhere.storage.outcomes.append(ProvisioningReschedule("full"))
    assert isinstance(anywhere.fail(), ProvisioningReschedule)
    assert not anywhere.is_held(claim)


def test_an_infeasible_claim_waits_for_five_minutes(begin: Callable[..., Play]) -> None:
    """Trying again soon cannot help, but another class of the name can, and is tried at once."""
    infeasible = begin()
    claim = infeasible.claim()
    infeasible.storage.outcomes.append(InfeasibleError("no such speed"))
    assert isinstance(infeasible.fail(), InfeasibleError)
    item = infeasible.item(claim)
    assert item is not None
    assert (item.due or 0) - (item.last_error_at or 0) == pytest.approx(300, abs=0.001)
    assert not infeasible.is_held(claim)
    infeasible.replace_class(claim)
    infeasible.run()
    assert infeasible.volume(claim)


def test_a_claim_that_others_provision_is_left_to_them(begin: Callable[..., Play]) -> None:
    """No failure, no event that says so, no second try."""
    leaving = begin()
    claim = leaving.claim()
    leaving.storage.outcomes.append(IgnoredError("of another shard"))
    leaving.run()
    assert leaving.item(claim) is None
    assert not leaving.is_held(claim)
    assert leaving.events(claim) == ["Provisioning"]


def test_it_backs_off_from_fifteen_seconds(begin: Callable[..., Play]) -> None:
    """A storage that failed is left alone for a while."""
    failing = begin()
    claim = failing.claim()
    failing.storage.outcomes.append(ProvisioningFinished("again"))
    failing.fail()
    item = failing.item(claim)
    assert item is not None
    assert (item.due or 0) - (item.last_error_at or 0) == pytest.approx(15, abs=0.001)


def test_a_back_off_doubles_and_all_of_a_fleet_have_their_turn() -> None:
    """The delay grows with each failure, and after a hundred claims ten a second come back."""
    clock = FakeClock()
    queue = MemoryQueue("claims", rate_limiter=DEFAULT_RATE_LIMITER, clock=clock)
    queue.add("default/claim")
    for delay in (15.0, 30.0, 60.0):
        queue.settle(queue.get(), OSError("the storage is down"))
        clock.step(delay - 0.1)
        assert queue.depth() == 0
        clock.step(0.2)
        assert queue.depth() == 1
    queue.settle(queue.get())
    for number in range(351):
        queue.add(f"default/{number}")
        queue.settle(queue.get(), OSError("the storage is down"))
    clock.step(15.05)
    assert queue.depth() == pytest.approx(250, abs=1)
    clock.step(10)
    assert queue.depth() == pytest.approx(350, abs=1)


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        ({"finalizers": [CLAIM_FINALIZER]}, False),
        ({"labels": {"team": "red"}}, False),
        ({"annotations": {SELECTED_NODE: "node-1"}}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
    ],
)
def test_own_finalizers_do_not_end_a_back_off(change: Object, matters: bool) -> None:
    """Finalizers and labels of a claim do not make it pending; a selected node and a deletion do."""
    old = new_claim("fast", "example.com/any")
    new = old | {"metadata": old["metadata"] | change}
    assert CHANGED_CLAIM(Event("update", new, old={"metadata": old["metadata"]})) is matters


def test_it_gives_up_after_so_many_failures(begin: Callable[..., Play]) -> None:
    """The claim is dead until it changes, and waits no longer than the storage needs."""
    hopeless = begin(failed_provision_threshold=2, rate_limiter=QUICKLY)
    claim = hopeless.claim()
    hopeless.storage.outcomes += [ProvisioningFinished("no")] * 4
    hopeless.retry()
    item = hopeless.item(claim)
    assert item is not None
    assert item.state == "dead"
    assert item.failures == 3
    hopeless.client.patch(CLAIM, key_of(claim), {"metadata": {"annotations": {"try": "again"}}})
    hopeless.retry()
    assert len(hopeless.storage.asked) == 4
    hopeless.kubernetes.delete(claim)
    hopeless.run()
    assert hopeless.item(claim) is None


def test_a_provision_that_takes_too_long_has_failed(begin: Callable[..., Play]) -> None:
    """The volume that came too late is found by the next attempt."""
    late = begin(provision_timeout=0.5, rate_limiter=QUICKLY)
    claim = late.claim()
    late.storage.outcomes.append(lambda: time.sleep(0.6))
    assert isinstance(late.fail(), TimeoutError)
    late.retry()
    assert late.volume(claim)
    assert len(late.storage.asked) == 1


def test_before_the_volume_is_saved(begin: Callable[..., Play], monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim waits, and the same volume is made again; the storage keeps one."""
    crashing = begin(rate_limiter=QUICKLY)
    claim = crashing.claim()
    die_once(monkeypatch, "create", of="PersistentVolume", before=True)
    assert isinstance(crashing.fail(), ApiError)
    assert crashing.volume(claim) is None
    assert crashing.is_held(claim)
    crashing.retry()
    assert crashing.volume(claim)
    assert crashing.storage.volumes == {pv_name(claim)}
    assert not crashing.is_held(claim)


def test_after_the_volume_is_saved(begin: Callable[..., Play], monkeypatch: pytest.MonkeyPatch) -> None:
    """The volume is found, and the claim let go, without a word to the storage."""
    crashing = begin(rate_limiter=QUICKLY)
    claim = crashing.claim()
    die_once(monkeypatch, "create", of="PersistentVolume", before=False)
    assert isinstance(crashing.fail(), ApiError)
    assert crashing.is_held(claim)
    crashing.retry()
    assert len(crashing.storage.asked) == 1
    assert not crashing.is_held(claim)


def test_a_volume_that_the_cache_does_not_show_yet_is_no_failure(
    begin: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process of the same program has just created it."""
    twice = begin()
    claim = twice.claim()
    create = Client.create

    def create_twice(client: Client, obj: Object) -> Object:
        if obj["kind"] == "PersistentVolume":
            create(client, obj)
            with pytest.raises(Conflict):
                create(client, obj)
        return create(client, obj)

    monkeypatch.setattr(Client, "create", create_twice)
    twice.run()
    assert twice.volume(claim)
    assert not twice.is_held(claim)


def test_between_the_volume_and_its_object(
    begin: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A volume that is deleted already is deleted again, which does nothing, and its object goes."""
    crashing = begin(rate_limiter=QUICKLY)
    claim = crashing.bound()
    crashing.kubernetes.release(claim)
    die_once(monkeypatch, "delete", of="PersistentVolume", before=True)
    assert isinstance(crashing.fail(), ApiError)
    assert crashing.storage.volumes == set()
    crashing.retry()
    assert crashing.volume(claim) is None


def die_once(monkeypatch: pytest.MonkeyPatch, method: str, *, of: str, before: bool) -> None:
    """Let a process die when it writes the first object of a kind, before it is written or after."""
    write = getattr(Client, method)
    deaths = iter(range(1))

    def dying(client: Client, what: Any, *rest: Any, **options: Any) -> Any:
        kind = what["kind"] if isinstance(what, dict) else what.rpartition("/")[2]
        dies = kind == of and next(deaths, None) is not None
        if dies and before:
            raise ApiError("the process died")
        written = write(client, what, *rest, **options)
        if dies:
            raise ApiError("the process died")
        return written

    monkeypatch.setattr(Client, method, dying)
