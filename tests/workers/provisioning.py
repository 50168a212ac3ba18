"""What the tests of the provision controller have in common: a storage, and what Kubernetes would do."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from distq import Client, Inspector, key_of
from distq.errors import ReconcileFailed
from distq.inspector import ItemInfo
from distq.testing import Sandbox
from distq.workqueue import ItemExponentialFailureRateLimiter
from workers.provisioner import ProvisionController, Provisioner, ProvisionOptions
from workers.provisioner.fields import SELECTED_NODE, STORAGE_PROVISIONER, pv_name
from workers.provisioner.provision_controller import (
    CLAIM,
    CLAIM_FINALIZER,
    STORAGE_CLASS,
    VOLUME,
    VOLUME_FINALIZER,
)

QUICKLY = ItemExponentialFailureRateLimiter(base_delay=0.001)
"""For tests that do not wait for fifteen seconds."""

Object = dict[str, Any]


class Storage(Provisioner):
    """Keeps the names of its volumes; each of the ``outcomes`` is raised, or called first, by one call."""

    def __init__(self) -> None:
        self.volumes: set[str] = set()
        self.asked: list[ProvisionOptions] = []
        self.outcomes: list[Exception | Callable[[], object]] = []
        self.block = False
        self.accepts = True

    def provision(self, options: ProvisionOptions) -> Object:
        """Note what is asked for, and make the volume, or do what the test wants."""
        self.asked.append(options)
        self._do_next()
        self.volumes.add(options.pv_name)
        return new_volume(options)

    def delete(self, volume: Object) -> None:
        """Delete the volume, or do what the test wants."""
        self._do_next()
        self.volumes.discard(volume["metadata"]["name"])

    def should_provision(self, claim: Object) -> bool:  # noqa: ARG002 - the same for all
        """Return what the test says."""
        return self.accepts

    def should_delete(self, volume: Object) -> bool:  # noqa: ARG002 - the same for all
        """Return what the test says."""
        return self.accepts

    def supports_block(self) -> bool:
        """Return what the test says."""
        return self.block

    def _do_next(self) -> None:
        if self.outcomes:
            outcome = self.outcomes.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            outcome()


def new_volume(options: ProvisionOptions) -> Object:
    """Return the PersistentVolume of a directory, as its class and claim want it."""
    claim = options.pvc["spec"]
    spec = {
        "persistentVolumeReclaimPolicy": options.storage_class["reclaimPolicy"],
        "accessModes": claim["accessModes"],
        "capacity": {"storage": claim["resources"]["requests"]["storage"]},
        "hostPath": {"path": f"/volumes/{options.pv_name}"},
    }
    return {"metadata": {"annotations": {"medium": "paper"}}, "spec": spec}


def new_class(provisioner_name: str, name: str = "", **fields: Any) -> Object:
    """Return a StorageClass, under a name of its own unless given; its volumes go with their claims."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name or f"class-{uuid4().hex[:8]}"},
        "provisioner": provisioner_name,
        "reclaimPolicy": "Delete",
        **fields,
    }


def new_claim(
    class_name: str, provisioner_name: str | None, namespace: str = "default", **spec: Any
) -> Object:
    """Return a claim that Kubernetes has given to a provisioner, or to none."""
    annotations = {STORAGE_PROVISIONER: provisioner_name} if provisioner_name else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"claim-{uuid4().hex[:8]}",
            "namespace": namespace,
            "annotations": annotations,
        },
        "spec": {
            "storageClassName": class_name,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


class Kubernetes:
    """Does what its controllers and scheduler do with claims and volumes; none of them runs in a sandbox."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def bind(self, claim: Object) -> None:
        """Bind the claim to the volume that was provisioned for it."""
        self._client.patch(CLAIM, key_of(claim), {"spec": {"volumeName": pv_name(claim)}})
        self._client.patch(CLAIM, key_of(claim), {"status": {"phase": "Bound"}}, status=True)
        self.say(pv_name(claim), "Bound")

    def release(self, claim: Object) -> None:
        """Delete the claim, and note that its volume is released, which nothing protects any more."""
        self.delete(claim)
        self.say(pv_name(claim), "Released")
        self.let_go(VOLUME, pv_name(claim))

    def delete(self, claim: Object) -> None:
        """Delete the claim, as a user does when no pod uses it."""
        self._client.delete(CLAIM, key_of(claim))
        self.let_go(CLAIM, key_of(claim))

    def say(self, volume: str, phase: str) -> None:
        """Write the phase of a volume."""
        self._client.patch(VOLUME, volume, {"status": {"phase": phase}}, status=True)

    def let_go(self, resource: str, key: str) -> None:
        """Remove the protection that a real API server gives to what may be in use."""
        protected = self._client.get(resource, key)
        for name in ("kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"):
            if protected is not None:
                self._client.remove_finalizer(protected, name)
                protected = self._client.get(resource, key)

    def select(self, claim: Object, node: str) -> None:
        """Choose the node where the claim's first consumer will run."""
        about = {"annotations": {SELECTED_NODE: node}}
        self._client.patch(CLAIM, key_of(claim), {"metadata": about})


class Play:
    """A provisioner, its storage and a class of it in a sandbox."""

    def __init__(self, sandbox: Sandbox, *, of_class: Object | None = None, **options: Any) -> None:
        self.client = sandbox.client
        self.kubernetes = Kubernetes(sandbox.client)
        self.storage = Storage()
        self.name = f"example.com/{uuid4().hex[:8]}"
        self.controller = ProvisionController(self.name, self.storage, **options)
        (self.storage_class,) = sandbox.apply(new_class(self.name) | (of_class or {}))
        self._sandbox = sandbox

    def claim(self, **spec: Any) -> Object:
        """Create a claim that Kubernetes gives to this provisioner."""
        return self.client.create(new_claim(self.storage_class["metadata"]["name"], self.name, **spec))

    def bound(self, **spec: Any) -> Object:
        """Create a claim and let it get its volume."""
        claim = self.claim(**spec)
        self.run()
        self.kubernetes.bind(claim)
        self.run()
        return claim

    def run(self, **options: Any) -> None:
        """Let the controller do what is to be done."""
        self._sandbox.run_until_idle(self.controller.claims, self.controller.volumes, **options)

    def retry(self) -> None:
        """Let it do its work, and try failed steps again."""
        self.run(on_failure="retry")

    def fail(self) -> BaseException | None:
        """Let it fail, and return with what."""
        with pytest.raises(ReconcileFailed) as failed:
            self.run()
        return failed.value.__cause__

    def replace_class(self, claim: Object) -> None:
        """Delete the claim's class, if it is there, and create another one of its name."""
        name = claim["spec"]["storageClassName"]
        self.client.delete(STORAGE_CLASS, name)
        self.client.create(new_class(self.name, name))

    def again(self, claim: Object) -> None:
        """Let the claim be tried again now, as if its back-off were over."""
        self.controller.claims.queue.add(key_of(claim))

    def stored(self, claim: Object) -> Object | None:
        """Return the claim as it is."""
        return self.client.get(CLAIM, key_of(claim))

    def volume(self, claim: Object) -> Object | None:
        """Return the volume of a claim."""
        return self.client.get(VOLUME, pv_name(claim))

    def is_held(self, obj: Object) -> bool:
        """Return whether the controller keeps an object from going."""
        stored = self.client.get(f"v1/{obj['kind']}", key_of(obj)) or {"metadata": {}}
        return bool({CLAIM_FINALIZER, VOLUME_FINALIZER} & {*stored["metadata"].get("finalizers", [])})

    def events(self, obj: Object) -> list[str]:
        """Return the reasons of the events about an object, as often as each was counted."""
        about = obj["metadata"]["uid"]
        found = [each for each in self.client.list("v1/Event") if each["involvedObject"]["uid"] == about]
        return sorted(each["reason"] for each in found for _ in range(each["count"]))

    def item(self, claim: Object) -> ItemInfo | None:
        """Return what the queue knows of a claim."""
        return Inspector(self._sandbox.redis).item(self.controller.claims.name, key_of(claim))
