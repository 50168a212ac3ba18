"""Who may speak with whom, and how Prometheus finds the pods."""

from collections.abc import Iterator, Sequence

from distq.cli.manifests.installation import COMPONENT, HTTP_PORT, Installation, Manifest, Object
from distq.cli.manifests.redis import PORT as REDIS_PORT

_DNS = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
_API_SERVER = [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]
_REDIS = [{"protocol": "TCP", "port": REDIS_PORT}]
_OUT = """\
Pods reach DNS, the API server and Redis, and nothing else: add what your reconciles call{redis}.
Metrics and probes have no login: choose from where they may be asked."""


def policies(installation: Installation, components: Sequence[str]) -> Iterator[Manifest]:
    """Yield what the pods of each kind may be asked, and ask."""
    processes = [each for each in components if each in {"informer", "worker"}]
    redis = [{"to": [_pods(installation, ["redis"])]}] if installation.own_redis else [{}]
    reach_redis = {**redis[0], "ports": _REDIS}
    dns = {"ports": _DNS}
    yield _policy(
        installation,
        "process",
        processes,
        ingress=[{"ports": [{"protocol": "TCP", "port": "http"}]}],
        egress=[dns, {"ports": _API_SERVER}, reach_redis],
        comment=_OUT.format(redis="" if installation.own_redis else ", and Redis' port where it is another"),
    )
    if "dashboard" in components:
        # probes and forwarded ports come from the node, which policies do not restrict
        yield _policy(installation, "dashboard", ["dashboard"], ingress=[], egress=[dns, reach_redis])
    if installation.own_redis:
        clients = [each for each in components if each != "redis"]
        asked = [{"from": [_pods(installation, clients)], "ports": _REDIS}]
        yield _policy(installation, "redis", ["redis"], ingress=asked, egress=[])


def metrics_service(installation: Installation) -> Manifest:
    """Return the Service by which a ServiceMonitor finds the pods that have metrics."""
    spec = {
        "clusterIP": "None",
        "selector": dict(installation.every_pod()),  # those without the port are left out
        "ports": [{"name": "http", "port": HTTP_PORT, "targetPort": "http"}],
    }
    metadata = installation.metadata("metrics")
    return Manifest({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


def service_monitor(installation: Installation) -> Manifest:
    """Return the ServiceMonitor by which Prometheus' operator scrapes the pods."""
    spec = {
        "selector": {"matchLabels": installation.labels("metrics")},
        "endpoints": [{"port": "http"}],
    }
    return Manifest(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": installation.metadata("metrics"),
            "spec": spec,
        },
        "Needs Prometheus' operator. Choose its labels where your Prometheus selects by them.",
    )


def _policy(
    installation: Installation,
    name: str,
    components: Sequence[str],
    *,
    ingress: list[Object],
    egress: list[Object],
    comment: str = "",
) -> Manifest:
    spec = {
        "podSelector": _pods(installation, components)["podSelector"],
        "policyTypes": ["Ingress", "Egress"],
        "ingress": ingress,
        "egress": egress,
    }
    metadata = installation.metadata(name)
    return Manifest(
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec},
        comment,
    )


def _pods(installation: Installation, components: Sequence[str]) -> Object:
    """Return what selects the pods of some components."""
    one_of = {"key": COMPONENT, "operator": "In", "values": list(components)}
    return {"podSelector": {"matchLabels": dict(installation.every_pod()), "matchExpressions": [one_of]}}
