"""What the fields of claims, volumes and classes mean to a provision controller."""

from typing import Any

from distq import reference

Object = dict[str, Any]

STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
"""Kubernetes' annotations of a claim that waits for a volume: who shall provision it."""

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The scheduler's annotation of a claim whose volume waits for its first consumer."""

BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"

PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
MIGRATED_TO = "pv.kubernetes.io/migrated-to"
"""Annotations of a volume: who provisioned it, and which CSI driver looks after it now."""


def annotations(obj: Object) -> dict[str, str]:
    """Return an object's annotations."""
    return obj["metadata"].get("annotations") or {}


def has_finalizer(obj: Object, name: str) -> bool:
    """Return whether an object has a finalizer."""
    return name in (obj["metadata"].get("finalizers") or [])


def is_being_deleted(obj: Object) -> bool:
    """Return whether an object was deleted, though finalizers keep it."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def provisioner_of_claim(claim: Object) -> str | None:
    """Return who shall provision a claim; None where Kubernetes has not said so, or need not."""
    found = annotations(claim)
    return found.get(STORAGE_PROVISIONER) or found.get(BETA_STORAGE_PROVISIONER)


def class_of_claim(claim: Object) -> str:
    """Return the name of a claim's class, "" for none; the annotation of old goes first."""
    found = annotations(claim)
    return (
        found[BETA_STORAGE_CLASS]
        if BETA_STORAGE_CLASS in found
        else claim["spec"].get("storageClassName") or ""
    )


def waits_for_consumer(storage_class: Object) -> bool:
    """Return whether the volumes of a class are made where their first consumer runs."""
    return bool(storage_class.get("volumeBindingMode") == "WaitForFirstConsumer")


def selected_node(claim: Object) -> str | None:
    """Return the node that the scheduler has chosen for a claim's first consumer."""
    return annotations(claim).get(SELECTED_NODE) or None


def is_block(claim: Object) -> bool:
    """Return whether a claim wants a raw block device."""
    return bool(claim["spec"].get("volumeMode") == "Block")


def pv_name(claim: Object) -> str:
    """Return the name of the volume that is provisioned for a claim."""
    return f"pvc-{claim['metadata']['uid']}"


def provisioners_of_volume(volume: Object) -> set[str]:
    """Return the possible provisioners of a volume, also of one that was made by hand."""
    found = annotations(volume)
    migrated_to = found.get(MIGRATED_TO)
    if provisioned_by := found.get(PROVISIONED_BY):
        names = {provisioned_by, migrated_to}
    elif csi := volume["spec"].get("csi"):
        names = {csi.get("driver")}
    else:
        names = {migrated_to}
    return {name for name in names if name}


def reclaim_policy(volume: Object) -> str:
    """Return what becomes of a volume that is released: Retain, Delete or Recycle."""
    return volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain"


def phase(volume: Object) -> str:
    """Return Pending, Available, Bound, Released or Failed."""
    return volume.get("status", {}).get("phase") or "Pending"


def claimed(volume: Object, claim: Object, *, provisioner_name: str, finalizers: list[str]) -> Object:
    """Return the PersistentVolume to be created for a claim of what a provisioner has made."""
    about = volume.get("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            **about,
            "name": pv_name(claim),
            "annotations": {**about.get("annotations", {}), PROVISIONED_BY: provisioner_name},
            "finalizers": [*about.get("finalizers", []), *finalizers],
        },
        "spec": {**volume["spec"], "claimRef": reference(claim), "storageClassName": class_of_claim(claim)},
    }


def claims_by_class(claim: Object) -> list[str]:
    """Return the class under which a claim without a volume is found: an index function."""
    return [] if claim["spec"].get("volumeName") else [class_of_claim(claim)]
