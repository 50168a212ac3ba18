"""What the provision controller counts, under the original's names. Source: controller/metrics/metrics.go."""

from typing import Any

from distq.metrics import Metric, MetricsProvider

Object = dict[str, Any]

_CLAIM, _VOLUME = ("class", "source"), ("class",)
_DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

PROVISIONED = Metric(
    "controller_persistentvolumeclaim_provision_total",
    "counter",
    "Volumes that were provisioned, by the claim's storage class and the kind of its data source.",
    _CLAIM,
)
PROVISION_FAILED = Metric(
    "controller_persistentvolumeclaim_provision_failed_total",
    "counter",
    "Attempts to provision a volume that failed.",
    _CLAIM,
)
PROVISION_DURATION = Metric(
    "controller_persistentvolumeclaim_provision_duration_seconds",
    "histogram",
    "How long in seconds the attempts took that provisioned a volume.",
    _CLAIM,
    _DURATIONS,
)
DELETED = Metric(
    "controller_persistentvolume_delete_total",
    "counter",
    "Volumes that were deleted, by storage class.",
    _VOLUME,
)
DELETE_FAILED = Metric(
    "controller_persistentvolume_delete_failed_total",
    "counter",
    "Attempts to delete a volume that failed.",
    _VOLUME,
)
DELETE_DURATION = Metric(
    "controller_persistentvolume_delete_duration_seconds",
    "histogram",
    "How long in seconds the attempts took that deleted a volume.",
    _VOLUME,
    _DURATIONS,
)


class ProvisionMetrics:
    """Reports the results of claims and volumes to a provider; None keeps nothing."""

    def __init__(self, provider: MetricsProvider | None) -> None:
        self._provider = provider

    def provisioned(self, claim: Object, seconds: float) -> None:
        """Count a volume that was provisioned by an attempt that took so long."""
        self._done(PROVISIONED, PROVISION_DURATION, _of_claim(claim), seconds)

    def provision_failed(self, claim: Object) -> None:
        """Count an attempt that failed."""
        self._count(PROVISION_FAILED, _of_claim(claim))

    def deleted(self, volume: Object, seconds: float) -> None:
        """Count a volume that was deleted by an attempt that took so long."""
        self._done(DELETED, DELETE_DURATION, _of_volume(volume), seconds)

    def delete_failed(self, volume: Object) -> None:
        """Count an attempt that failed."""
        self._count(DELETE_FAILED, _of_volume(volume))

    def _done(self, counter: Metric, histogram: Metric, labels: tuple[str, ...], seconds: float) -> None:
        self._count(counter, labels)
        if self._provider is not None:
            self._provider.observe(histogram, labels, [seconds])

    def _count(self, counter: Metric, labels: tuple[str, ...]) -> None:
        if self._provider is not None:
            self._provider.count(counter, labels, 1)


def _of_claim(claim: Object) -> tuple[str, str]:
    spec = claim["spec"]
    return spec.get("storageClassName") or "", (spec.get("dataSource") or {}).get("kind") or ""


def _of_volume(volume: Object) -> tuple[str]:
    return (volume["spec"].get("storageClassName") or "",)
