"""A claim that should have a volume gets one, and one alone: examples of how to test a controller.

Each test has a provisioner of its own, so that the claims of others in the same sandbox do not concern it.
"""

from collections.abc import Callable
from uuid import uuid4

import pytest

from distq import key_of, reference
from tests.support.recorded_metrics import RecordedMetrics
from tests.workers.provisioning import QUICKLY, Object, Play, new_claim
from workers.provisioner import (
    ProvisioningFinished,
)
from workers.provisioner.fields import BETA_STORAGE_CLASS, BETA_STORAGE_PROVISIONER
from workers.provisioner.provision_controller import (
    CLAIM,
    STORAGE_CLASS,
    VOLUME_FINALIZER,
    BlockNotSupported,
    StorageClassNotFound,
    UnknownProvisioner,
)


def test_a_claim_gets_its_volume(begin: Callable[..., Play]) -> None:
    """It is made as class and claim say, is for this claim, and the claim may go at any time."""
    simple = begin(of_class={"parameters": {"speed": "high"}})
    claim = simple.claim(accessModes=["ReadOnlyMany"])
    simple.run()
    (options,) = simple.storage.asked
    assert options.storage_class["parameters"] == {"speed": "high"}
    assert options.selected_node_name is None
    volume = simple.volume(claim)
    assert volume is not None
    assert volume["metadata"]["annotations"] == {
        "medium": "paper",
        "pv.kubernetes.io/provisioned-by": simple.name,
    }
    assert VOLUME_FINALIZER in volume["metadata"]["finalizers"]
    assert volume["spec"]["storageClassName"] == simple.storage_class["metadata"]["name"]
    assert volume["spec"]["accessModes"] == ["ReadOnlyMany"]
    assert volume["spec"]["capacity"] == {"storage": "1Gi"}
    expected = reference(claim) | {"resourceVersion": volume["spec"]["claimRef"]["resourceVersion"]}
    assert volume["spec"]["claimRef"] == expected
    assert not simple.is_held(claim)
    assert simple.events(claim) == ["Provisioning", "ProvisioningSucceeded"]


def test_a_claim_is_held_while_its_volume_is_made(begin: Callable[..., Play]) -> None:
    """So that a claim that is deleted, or a process that dies, leaves no volume behind."""
    held = begin()
    claim = held.claim()
    seen: list[bool] = []
    held.storage.outcomes.append(lambda: seen.append(held.is_held(claim)))
    held.run()
    assert seen == [True]


def test_a_claim_that_has_its_volume_is_left_alone(begin: Callable[..., Play]) -> None:
    """A claim that changes, before and after it is bound, asks for no second volume."""
    done = begin()
    claim = done.bound()
    done.client.patch(CLAIM, key_of(claim), {"metadata": {"annotations": {"looked": "at"}}})
    done.run()
    assert len(done.storage.asked) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {}}},
        {"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "example.com/other"}}},
        {"spec": {"volumeName": "a-volume-of-old"}},
    ],
    ids=["of no provisioner", "of another provisioner", "with a volume"],
)
def test_other_claims_are_left_alone(begin: Callable[..., Play], change: Object) -> None:
    """What Kubernetes has not asked this provisioner for is not its business."""
    other = begin()
    claim = new_claim(other.storage_class["metadata"]["name"], other.name)
    for part, fields in change.items():
        claim[part] |= fields
    claim = other.client.create(claim)
    other.run()
    assert other.storage.asked == []
    assert other.events(claim) == []


def test_a_provisioner_may_choose_its_claims(begin: Callable[..., Play]) -> None:
    """Several programs may serve one class."""
    choosy = begin()
    choosy.storage.accepts = False
    choosy.claim()
    choosy.run()
    assert choosy.storage.asked == []


def test_it_goes_by_more_than_one_name(begin: Callable[..., Play]) -> None:
    """As a driver that was renamed: the volume bears the name of its class."""
    former = f"example.com/{uuid4().hex[:8]}"
    renamed = begin(additional_provisioner_names=[former], of_class={"provisioner": former})
    claim = renamed.client.create(new_claim(renamed.storage_class["metadata"]["name"], former))
    renamed.run()
    volume = renamed.volume(claim)
    assert volume is not None
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == former


def test_annotations_of_old_count(begin: Callable[..., Play]) -> None:
    """The beta annotations say class and provisioner, where there are no others."""
    old = begin()
    claim = new_claim("", None)
    claim["metadata"]["annotations"] = {
        BETA_STORAGE_CLASS: old.storage_class["metadata"]["name"],
        BETA_STORAGE_PROVISIONER: old.name,
    }
    claim = old.client.create(claim)
    old.run()
    assert old.volume(claim)


def test_a_volume_waits_for_its_first_consumer(begin: Callable[..., Play]) -> None:
    """It is made once the scheduler has chosen a node, and for that node."""
    waiting = begin(of_class={"volumeBindingMode": "WaitForFirstConsumer"})
    claim = waiting.claim()
    waiting.run()
    assert waiting.storage.asked == []
    waiting.kubernetes.select(claim, "node-1")
    waiting.run()
    (options,) = waiting.storage.asked
    assert options.selected_node_name == "node-1"


def test_a_block_device_needs_a_provisioner_that_makes_some(begin: Callable[..., Play]) -> None:
    """Where it does not, the claim is dead, and an event says why."""
    plain = begin()
    claim = plain.claim(volumeMode="Block")
    assert isinstance(plain.fail(), BlockNotSupported)
    assert plain.events(claim) == ["ProvisioningFailed"]
    able = begin()
    able.storage.block = True
    claim = able.claim(volumeMode="Block")
    able.run()
    assert able.volume(claim)


def test_a_claim_without_its_class_is_tried_when_the_class_comes(begin: Callable[..., Play]) -> None:
    """It fails, and the new class makes it pending at once, after any back-off."""
    early = begin()
    claim = early.claim()
    early.client.delete(STORAGE_CLASS, early.storage_class["metadata"]["name"])
    assert isinstance(early.fail(), StorageClassNotFound)
    early.replace_class(claim)
    early.run()
    assert early.volume(claim)


def test_a_class_of_another_provisioner_parks_the_claim(begin: Callable[..., Play]) -> None:
    """Kubernetes says one name and the class another; a class that is replaced revives the claim."""
    confused = begin(of_class={"provisioner": "example.com/other"})
    claim = confused.claim()
    assert isinstance(confused.fail(), UnknownProvisioner)
    item = confused.item(claim)
    assert item is not None
    assert item.state == "dead"
    confused.replace_class(claim)
    confused.run()
    assert confused.volume(claim)


def test_a_deleted_claim_gets_no_volume(begin: Callable[..., Play]) -> None:
    """Provisioning does not begin, even though a finalizer of another program keeps the claim."""
    deleted = begin()
    claim = deleted.claim()
    claim = deleted.client.add_finalizer(claim, "example.com/somebody")
    deleted.kubernetes.delete(claim)
    deleted.run()
    assert deleted.storage.asked == []
    stored = deleted.stored(claim)
    assert stored is not None
    deleted.client.remove_finalizer(stored, "example.com/somebody")


def test_it_counts_its_work_under_the_originals_names(begin: Callable[..., Play]) -> None:
    """By class, and by the source of a claim."""
    metrics = RecordedMetrics()
    counting = begin(metrics=metrics, rate_limiter=QUICKLY)
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "before"}
    counting.storage.outcomes.append(ProvisioningFinished("full"))
    claim = counting.claim(dataSource=source)
    counting.retry()
    counting.kubernetes.bind(claim)
    counting.kubernetes.release(claim)
    counting.storage.outcomes.append(OSError("it is mounted"))
    counting.retry()
    of_class = counting.storage_class["metadata"]["name"]
    assert {(metric.name, labels): amount for (metric, labels), amount in metrics.counters.items()} == {
        ("controller_persistentvolumeclaim_provision_total", (of_class, "VolumeSnapshot")): 1,
        ("controller_persistentvolumeclaim_provision_failed_total", (of_class, "VolumeSnapshot")): 1,
        ("controller_persistentvolume_delete_total", (of_class,)): 1,
        ("controller_persistentvolume_delete_failed_total", (of_class,)): 1,
    }
    assert {metric.name: len(values) for (metric, _), values in metrics.observed.items()} == {
        "controller_persistentvolumeclaim_provision_duration_seconds": 1,
        "controller_persistentvolume_delete_duration_seconds": 1,
    }
