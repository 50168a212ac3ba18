"""Autoscaling of workers, and disruption budgets."""

from collections.abc import Iterator

from distq.cli.manifests.installation import Installation, Manifest, Object
from distq.metrics import DEPTH

WAITING_ROUNDS = 10
"""Reconciles of each slot for which items may wait before another worker is added."""

_PROMETHEUS = "http://prometheus.monitoring:9090"
_OF_HPA = """\
Needs an adapter that serves Prometheus' {metric} as an external metric; without one there are {least}.
Choose averageValue, how many items may wait for each worker, by how long a reconcile takes."""
_OF_KEDA = """\
Choose serverAddress, your Prometheus, and threshold, how many items may wait for each worker, by how long a
reconcile takes."""


def autoscaler(installation: Installation) -> Manifest:
    """Return the HorizontalPodAutoscaler of the workers, by the depth of each queue."""
    least, most = installation.workers
    metrics = [
        {
            "type": "External",
            "external": {
                "metric": {"name": DEPTH.name, "selector": {"matchLabels": {"name": queue}}},
                "target": {"type": "AverageValue", "averageValue": str(waiting)},
            },
        }
        for queue, waiting in _queues(installation)
    ]
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": installation.of("worker")},
        "minReplicas": least,
        "maxReplicas": most,
        "metrics": metrics,
    }
    comment = _OF_HPA.format(metric=DEPTH.name, least=least)
    return Manifest(
        _object(installation, "autoscaling/v2", "HorizontalPodAutoscaler", "worker", spec), comment
    )


def scaled_object(installation: Installation) -> Manifest:
    """Return KEDA's ScaledObject of the workers, by the depth of each queue."""
    least, most = installation.workers
    triggers = [
        {
            "type": "prometheus",
            "metadata": {
                "serverAddress": _PROMETHEUS,
                "query": f'sum(max by (priority) ({DEPTH.name}{{name="{queue}"}}))',
                "threshold": str(waiting),
            },
        }
        for queue, waiting in _queues(installation)
    ]
    spec = {
        "scaleTargetRef": {"name": installation.of("worker")},
        "minReplicaCount": least,
        "maxReplicaCount": most,
        "triggers": triggers,
    }
    return Manifest(_object(installation, "keda.sh/v1alpha1", "ScaledObject", "worker", spec), _OF_KEDA)


def disruption_budgets(installation: Installation) -> Iterator[Manifest]:
    """Yield that one informer, and a quarter of the workers, may be away while nodes are drained."""
    for component, away in {"informer": 1, "worker": "25%"}.items():
        if component == "informer" and not installation.informs:
            continue
        spec = {
            "maxUnavailable": away,
            "selector": {"matchLabels": installation.labels(component)},
        }
        yield Manifest(_object(installation, "policy/v1", "PodDisruptionBudget", component, spec))


def _queues(installation: Installation) -> Iterator[tuple[str, int]]:
    """Yield each queue, and how many items may wait in it for each worker."""
    for controller in installation.controllers:
        slots = installation.settings.concurrency or controller.concurrency
        yield controller.name, WAITING_ROUNDS * slots


def _object(installation: Installation, api_version: str, kind: str, component: str, spec: Object) -> Object:
    metadata = installation.metadata(component)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
