"""A volume that is released is deleted, if its reclaim policy says so, and stays known until then."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from distq import key_of
from tests.workers.provisioning import QUICKLY, Object, Play
from workers.provisioner import (
    IgnoredError,
    ProvisionController,
)
from workers.provisioner.fields import pv_name
from workers.provisioner.provision_controller import (
    VOLUME,
    VOLUME_FINALIZER,
)


def test_a_released_volume_is_deleted(begin: Callable[..., Play]) -> None:
    """In the storage, then in Kubernetes."""
    simple = begin()
    claim = simple.bound()
    assert simple.storage.volumes == {pv_name(claim)}
    simple.kubernetes.release(claim)
    simple.run()
    assert simple.storage.volumes == set()
    assert simple.volume(claim) is None


def test_a_volume_to_be_retained_is(begin: Callable[..., Play]) -> None:
    """Nothing keeps its object then."""
    retained = begin(of_class={"reclaimPolicy": "Retain"})
    claim = retained.bound()
    volume = retained.volume(claim)
    assert volume is not None
    assert not retained.is_held(volume)
    retained.kubernetes.release(claim)
    retained.run()
    assert retained.storage.volumes == {pv_name(claim)}
    assert retained.volume(claim)


def test_the_finalizer_follows_the_reclaim_policy(begin: Callable[..., Play]) -> None:
    """People change it while the volume is in use, to and fro."""
    changing = begin()
    volume = changing.volume(changing.bound())
    assert volume is not None
    for policy, held in (("Retain", False), ("Delete", True)):
        patch = {"spec": {"persistentVolumeReclaimPolicy": policy}}
        changing.client.patch(VOLUME, key_of(volume), patch)
        changing.run()
        assert changing.is_held(volume) == held


def test_a_volume_that_is_deleted_in_use_stays_until_it_is_released(begin: Callable[..., Play]) -> None:
    """The finalizer keeps its object, and with it what is known of the storage."""
    used = begin()
    claim = used.bound()
    used.client.delete(VOLUME, pv_name(claim))
    used.kubernetes.let_go(VOLUME, pv_name(claim))
    used.run()
    assert used.volume(claim)
    assert used.storage.volumes == {pv_name(claim)}
    used.kubernetes.release(claim)
    used.run()
    assert used.volume(claim) is None
    assert used.storage.volumes == set()


def test_without_finalizers_there_are_none(begin: Callable[..., Play]) -> None:
    """An earlier one is removed, and a volume whose object a user deletes is left in the storage."""
    without = begin(add_finalizer=False)
    claim = without.bound()
    volume = without.volume(claim)
    assert volume is not None
    assert not without.is_held(volume)
    without.client.add_finalizer(volume, VOLUME_FINALIZER)
    without.run()
    assert not without.is_held(volume)
    without.kubernetes.release(claim)
    without.run()
    assert without.storage.volumes == set()
    assert without.volume(claim) is None


def test_a_deletion_that_fails_is_tried_again(begin: Callable[..., Play]) -> None:
    """An event says why, and the object stays meanwhile."""
    failing = begin(rate_limiter=QUICKLY)
    claim = failing.bound()
    volume = failing.volume(claim)
    assert volume is not None
    failing.kubernetes.release(claim)
    failing.storage.outcomes.append(OSError("it is mounted"))
    assert isinstance(failing.fail(), OSError)
    assert failing.is_held(volume)
    assert failing.events(volume) == ["VolumeFailedDelete"]
    failing.retry()
    assert failing.volume(claim) is None


def test_a_volume_that_others_delete_is_left_to_them(begin: Callable[..., Play]) -> None:
    """No failure, no event, and the object stays."""
    leaving = begin()
    claim = leaving.bound()
    volume = leaving.volume(claim)
    assert volume is not None
    leaving.kubernetes.release(claim)
    leaving.storage.outcomes.append(IgnoredError("of another shard"))
    leaving.run()
    assert leaving.volume(claim)
    assert leaving.events(volume) == []


def test_a_provisioner_may_guard_its_volumes(begin: Callable[..., Play]) -> None:
    """A volume with snapshots, say."""
    guarded = begin()
    claim = guarded.bound()
    guarded.kubernetes.release(claim)
    guarded.storage.accepts = False
    guarded.run()
    assert guarded.storage.volumes == {pv_name(claim)}


def test_the_present_state_decides_a_deletion(
    begin: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user retains the volume in the moment in which it is looked at: it stays."""
    saved = begin()
    claim = saved.bound()
    saved.kubernetes.release(claim)

    def retain(volume: Object) -> bool:
        patch = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
        saved.client.patch(VOLUME, key_of(volume), patch)
        return True

    monkeypatch.setattr(saved.storage, "should_delete", retain)
    saved.run()
    assert saved.storage.volumes == {pv_name(claim)}


@pytest.mark.parametrize(
    ("annotations", "source", "theirs"),
    [
        ({}, {"csi": {"driver": "NAME", "volumeHandle": "1"}}, True),
        ({}, {"csi": {"driver": "other.example.com", "volumeHandle": "1"}}, False),
        ({}, {"hostPath": {"path": "/old"}}, False),
        ({"pv.kubernetes.io/migrated-to": "NAME"}, {"hostPath": {"path": "/old"}}, True),
        ({"pv.kubernetes.io/provisioned-by": "NAME"}, {"hostPath": {"path": "/old"}}, True),
        ({"pv.kubernetes.io/provisioned-by": "example.com/o"}, {"hostPath": {"path": "/old"}}, False),
        (
            {"pv.kubernetes.io/provisioned-by": "k/o", "pv.kubernetes.io/migrated-to": "NAME"},
            {"hostPath": {"path": "/old"}},
            True,
        ),
    ],
)
def test_it_looks_after_its_own_volumes(
    begin: Callable[..., Play], annotations: dict[str, str], source: Object, theirs: bool
) -> None:
    """Those that it provisioned, those of its CSI driver, and those that were migrated to it."""
    keeper = begin()
    name = f"static-{uuid4().hex[:8]}"
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {key: value.replace("NAME", keeper.name) for key, value in annotations.items()},
        },
        "spec": {
            "persistentVolumeReclaimPolicy": "Delete",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            **source,
        },
    }
    if source.get("csi", {}).get("driver") == "NAME":
        driver = keeper.name.replace("/", ".")
        keeper.controller = ProvisionController(driver, keeper.storage)
        source["csi"] |= {"driver": driver}
    keeper.storage.volumes.add(name)
    keeper.client.create(volume)
    keeper.kubernetes.say(name, "Released")
    keeper.run()
    assert (keeper.storage.volumes == set()) == theirs
    keeper.client.delete(VOLUME, name)
