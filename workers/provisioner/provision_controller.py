"""The controller: claims become volumes, and released volumes are deleted.

Source: controller/controller.go and controller/volume_store.go.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from distq import Client, Connection, Controller, For, Queue, Request, TerminalError, Watches, key_of
from distq.controller.event import Event
from distq.controller.predicate import annotations_changed
from distq.errors import Conflict
from distq.metrics import MetricsProvider
from distq.workqueue import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
)
from workers.provisioner import fields
from workers.provisioner.metrics import ProvisionMetrics
from workers.provisioner.provisioner import (
    IgnoredError,
    Provisioner,
    ProvisioningFinished,
    ProvisioningNoChange,
    ProvisioningReschedule,
    ProvisionOptions,
)

CLAIM = "v1/PersistentVolumeClaim"
VOLUME = "v1/PersistentVolume"
STORAGE_CLASS = "storage.k8s.io/v1/StorageClass"

VOLUME_FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
"""Keeps a PersistentVolume until the storage behind it is deleted."""

CLAIM_FINALIZER = "external-provisioner.volume.kubernetes.io/provisioning"
"""Keeps a claim while a volume may be made for it, so that no volume is left behind unknown."""

DEFAULT_RATE_LIMITER = MaxOfRateLimiter(
    ItemExponentialFailureRateLimiter(base_delay=15.0, max_delay=1000.0),
    BucketRateLimiter(qps=10.0, burst=100),
)

Object = dict[str, Any]

_logger = logging.getLogger(__name__)


def _is_being_deleted(event: Event) -> bool:
    return bool(event.metadata.get("deletionTimestamp"))


CHANGED_CLAIM = annotations_changed | _is_being_deleted
"""What Kubernetes, and people, change of a claim without a volume. Finalizers do not count: with each attempt
one comes and goes, and would end the back-off."""


def _is_new(event: Event) -> bool:
    """Return whether a class came into being, for which claims may wait; a list only finds what was there."""
    return event.type == "create" and not event.in_initial_list


class StorageClassNotFound(Exception):
    """A claim's class is not there; the claim is tried again, at once when the class comes."""


class UnknownProvisioner(TerminalError):
    """A claim's class is not for this provisioner, though Kubernetes has asked it to provision the claim."""


class BlockNotSupported(TerminalError):
    """A claim wants a raw block device, which the provisioner does not make."""


class ProvisionController:
    """Provisions volumes for claims by ``claims``, and deletes released ones by ``volumes``, two Controllers.

    It serves what Kubernetes gives to ``provisioner_name``, by which its queues are named, or to one of the
    ``additional_provisioner_names``. With ``add_finalizer`` a PersistentVolume stays until its volume is
    deleted. After ``failed_provision_threshold`` or ``failed_delete_threshold`` failures one more makes the
    item dead; None tries for ever. What takes longer than ``provision_timeout`` or ``deletion_timeout``
    seconds has failed when it returns: give the clients that a provisioner uses timeouts. ``concurrency`` of
    each run at a time in one process, and those of a dead one elsewhere after ``claim_duration`` seconds.
    Raises ConfigError.
    """

    def __init__(
        self,
        provisioner_name: str,
        provisioner: Provisioner,
        *,
        additional_provisioner_names: Iterable[str] = (),
        add_finalizer: bool = True,
        failed_provision_threshold: int | None = 15,
        failed_delete_threshold: int | None = 15,
        provision_timeout: float | None = None,
        deletion_timeout: float | None = None,
        rate_limiter: RateLimiter = DEFAULT_RATE_LIMITER,
        concurrency: int = 4,
        claim_duration: float = 30.0,
        client: Client | None = None,
        redis: Connection | None = None,
        metrics: MetricsProvider | None = None,
    ) -> None:
        self._names = {provisioner_name, *additional_provisioner_names}
        self._provisioner = provisioner
        self._add_finalizer = add_finalizer
        self._client = client or Client(field_manager=provisioner_name)
        self._metrics = ProvisionMetrics(metrics)

        def queue(what: str, threshold: int | None) -> Queue:
            return Queue(
                f"{provisioner_name.replace('/', '-')}-{what}",
                redis,
                rate_limiter=rate_limiter,
                max_retries=threshold,
                claim_duration=claim_duration,
            )

        self.claims = Controller(
            queue("claims", failed_provision_threshold),
            self.sync_claim,
            watches=[
                For(CLAIM, predicates=CHANGED_CLAIM, cached=True, indexers={"class": fields.claims_by_class}),
                Watches(STORAGE_CLASS, self.claims_of_class, predicates=_is_new, cached=True),
            ],
            concurrency=concurrency,
            reconciliation_timeout=provision_timeout,
        )
        self.volumes = Controller(
            queue("volumes", failed_delete_threshold),
            self.sync_volume,
            watches=[For(VOLUME, cached=True)],
            concurrency=concurrency,
            reconciliation_timeout=deletion_timeout,
        )

    def sync_claim(self, request: Request) -> None:
        """Provision a volume for a claim where one is wanted, and let go of the claim."""
        claim = self.claims.lister(CLAIM).get(request.key)
        if claim is None or fields.provisioner_of_claim(claim) not in self._names:
            return
        try:
            if self.should_provision(claim):
                claim = self.provision(claim)
        except Exception:
            self._metrics.provision_failed(claim)
            raise
        self._client.remove_finalizer(claim, CLAIM_FINALIZER)

    def claims_of_class(self, storage_class: Object) -> Iterator[str]:
        """Yield the keys of the claims that wait for a volume of a class."""
        return map(key_of, self.claims.lister(CLAIM).by_index("class", storage_class["metadata"]["name"]))

    def should_provision(self, claim: Object) -> bool:
        """Return whether a volume is to be made for a claim, or to be finished.

        Raises StorageClassNotFound and UnknownProvisioner.
        """
        if claim["spec"].get("volumeName") or not self._provisioner.should_provision(claim):
            return False
        if fields.is_being_deleted(claim) and not fields.has_finalizer(claim, CLAIM_FINALIZER):
            return False  # nothing was begun for it
        if fields.waits_for_consumer(self._class_of(claim)) and not fields.selected_node(claim):
            return False
        return self.volumes.lister(VOLUME).get(fields.pv_name(claim)) is None

    def provision(self, claim: Object) -> Object:
        """Make the volume of a claim, then its PersistentVolume; return the claim as stored.

        A process that dies on the way leaves a claim that waits, and another one makes the same volume.
        """
        self._require_mode(claim)
        storage_class = self._class_of(claim)
        held = fields.has_finalizer(claim, CLAIM_FINALIZER)
        claim = self._client.add_finalizer(claim, CLAIM_FINALIZER)
        options = ProvisionOptions(storage_class, fields.pv_name(claim), claim, fields.selected_node(claim))
        self._client.event(claim, "Provisioning", f"Provisioning volume {options.pv_name}")
        began = time.monotonic()
        try:
            self._create(self._provisioner.provision(options), options)
        except IgnoredError as ignored:
            _logger.info("%s of %s is left to others: %s", options.pv_name, key_of(claim), ignored)
        except Exception as error:
            self._client.event(claim, "ProvisioningFailed", str(error), type="Warning")
            if isinstance(error, ProvisioningReschedule) and options.selected_node_name:
                return self._reschedule(claim)
            if isinstance(error, ProvisioningFinished) or (
                isinstance(error, ProvisioningNoChange) and not held
            ):
                self._client.remove_finalizer(claim, CLAIM_FINALIZER)
            raise
        else:
            self._client.event(claim, "ProvisioningSucceeded", f"Provisioned volume {options.pv_name}")
            self._metrics.provisioned(claim, time.monotonic() - began)
        return claim

    def sync_volume(self, request: Request) -> None:
        """Delete a volume that is released, and see that it is not forgotten before."""
        volume = self.volumes.lister(VOLUME).get(request.key)
        if volume is None or not self._names & fields.provisioners_of_volume(volume):
            return
        self._keep_finalizer(volume)
        if self.should_delete(volume):
            # a deletion cannot be taken back, so let what is so now decide
            newest = self._client.get(VOLUME, request.key)
            if newest is not None and self.should_delete(newest):
                try:
                    self.delete(newest)
                except Exception:
                    self._metrics.delete_failed(newest)
                    raise

    def should_delete(self, volume: Object) -> bool:
        """Return whether a volume is released, to be deleted then, and not deleted already."""
        if fields.phase(volume) != "Released" or fields.reclaim_policy(volume) != "Delete":
            return False
        deleted = fields.is_being_deleted(volume) and not fields.has_finalizer(volume, VOLUME_FINALIZER)
        return not deleted and self._provisioner.should_delete(volume)

    def delete(self, volume: Object) -> None:
        """Delete a volume, then its PersistentVolume."""
        name, uid = volume["metadata"]["name"], volume["metadata"]["uid"]
        began = time.monotonic()
        try:
            self._provisioner.delete(volume)
        except IgnoredError as ignored:
            _logger.info("%s is left to others: %s", name, ignored)
            return
        except Exception as error:
            self._client.event(volume, "VolumeFailedDelete", str(error), type="Warning")
            raise
        self._client.remove_finalizer(volume, VOLUME_FINALIZER)
        self._client.delete(VOLUME, name, uid=uid)
        self._metrics.deleted(volume, time.monotonic() - began)

    def _class_of(self, claim: Object) -> Object:
        name = fields.class_of_claim(claim)
        storage_class = self.claims.lister(STORAGE_CLASS).get(name) if name else None
        if storage_class is None:
            raise StorageClassNotFound(f'no StorageClass "{name}"')
        if storage_class["provisioner"] not in self._names:
            raise UnknownProvisioner(f'StorageClass "{name}" is for {storage_class["provisioner"]}')
        return storage_class

    def _require_mode(self, claim: Object) -> None:
        if fields.is_block(claim) and not self._provisioner.supports_block():
            message = "the provisioner does not make volumes of the mode Block"
            self._client.event(claim, "ProvisioningFailed", message, type="Warning")
            raise BlockNotSupported(message)

    def _create(self, volume: Object, options: ProvisionOptions) -> None:
        """Create the PersistentVolume for its claim; there is one where a process died right after this."""
        claimed = fields.claimed(
            volume,
            options.pvc,
            provisioner_name=options.storage_class["provisioner"],
            finalizers=[VOLUME_FINALIZER] if self._add_finalizer else [],
        )
        with suppress(Conflict):
            self._client.create(claimed)

    def _reschedule(self, claim: Object) -> Object:
        """Ask the scheduler for another node, unless it chose one meanwhile; return the claim as stored."""
        self._metrics.provision_failed(claim)
        version = claim["metadata"]["resourceVersion"]
        about = {"resourceVersion": version, "annotations": {fields.SELECTED_NODE: None}}
        return self._client.patch(CLAIM, key_of(claim), {"metadata": about})

    def _keep_finalizer(self, volume: Object) -> None:
        """Let the finalizer follow the reclaim policy, which people change."""
        policy = fields.reclaim_policy(volume)
        if not self._add_finalizer or policy in {"Retain", "Recycle"}:
            self._client.remove_finalizer(volume, VOLUME_FINALIZER)
        elif policy == "Delete" and fields.phase(volume) == "Bound" and not fields.is_being_deleted(volume):
            self._client.add_finalizer(volume, VOLUME_FINALIZER)
