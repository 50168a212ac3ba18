"""Informers, workers and the dashboard as Deployments, within the restricted pod security standard."""

from collections.abc import Sequence
from math import ceil

from distq.cli.manifests.installation import HTTP_PORT, Installation, Manifest, Object
from distq.cli.manifests.redis import redis_variables
from distq.cli.manifests.security import confined, restricted

INFORMERS = 2

_USER = 1000
"""As whom the image runs."""

_AFTER_GRACE = 5
"""Seconds from the end of the grace period to SIGKILL; a process ends within two of them."""

_DASHBOARD = "127.0.0.1:9181"
_OPENS = f"import urllib.request as r; r.urlopen('http://{_DASHBOARD}/', timeout=2)"

_WORKERS = "The memory is a small program's: measure yours. With a limit of processor time claims may lapse."
_LOOK = """\
It has no login, and listens on its pod's loopback address alone. Whoever may forward ports sees it at
http://{address}/ after: kubectl port-forward --namespace {namespace} deployment/{name} {port}"""


def informer(installation: Installation, *, scraped: bool) -> Manifest:
    """Return the informers' Deployment: two, of which one leads."""
    target = installation.target
    pod = _pod(installation, "informer", [_container(installation, "informer", [target])])
    pod["initContainers"] = [_check(installation, [target])]
    pod["affinity"] = {"podAntiAffinity": _apart(installation.labels("informer"))}
    return Manifest(_deployment(installation, "informer", pod, replicas=INFORMERS, scraped=scraped))


def worker(installation: Installation, *, scraped: bool) -> Manifest:
    """Return the workers' Deployment; where an autoscaler counts them, it does not."""
    pod = _pod(installation, "worker", [_container(installation, "worker", [installation.target])])
    pod["initContainers"] = [_check(installation, [])]
    least, most = installation.workers
    replicas = least if least == most else None
    return Manifest(_deployment(installation, "worker", pod, replicas=replicas, scraped=scraped), _WORKERS)


def dashboard(installation: Installation) -> Manifest:
    """Return the dashboard's Deployment, which has no rights at all."""
    container = _distq(installation, "dashboard", ["dashboard", "--bind", _DASHBOARD])
    # a kubelet cannot reach the loopback address, but what it runs in the pod can
    container["readinessProbe"] = {
        "exec": {"command": ["python", "-c", _OPENS]},
        "timeoutSeconds": 5,
        "periodSeconds": 30,
    }
    pod = {
        "automountServiceAccountToken": False,
        "securityContext": restricted(_USER, _USER),
        "containers": [container],
    }
    address, port = _DASHBOARD, _DASHBOARD.rpartition(":")[2]
    look = _LOOK.format(
        address=address, namespace=installation.namespace, name=installation.of("dashboard"), port=port
    )
    return Manifest(_deployment(installation, "dashboard", pod, replicas=1, scraped=False), look)


def _deployment(
    installation: Installation, component: str, pod: Object, *, replicas: int | None, scraped: bool
) -> Object:
    labels = installation.labels(component)
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(HTTP_PORT)} if scraped else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": installation.metadata(component),
        "spec": {
            **({} if replicas is None else {"replicas": replicas}),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, **({"annotations": annotations} if annotations else {})},
                "spec": pod,
            },
        },
    }


def _pod(installation: Installation, component: str, containers: list[Object]) -> Object:
    return {
        "serviceAccountName": installation.of(component),
        "terminationGracePeriodSeconds": ceil(installation.settings.grace_period) + _AFTER_GRACE,
        "securityContext": restricted(_USER, _USER),
        "containers": containers,
    }


def _container(installation: Installation, command: str, arguments: Sequence[str]) -> Object:
    """Return the container of a process that answers probes and is scraped."""
    return _distq(installation, command, [command, *arguments], DISTQ_HTTP_ADDRESS=f":{HTTP_PORT}") | {
        "ports": [{"name": "http", "containerPort": HTTP_PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "timeoutSeconds": 2},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "timeoutSeconds": 2},
    }


def _check(installation: Installation, target: Sequence[str]) -> Object:
    """Return the container that says, before anything runs, what is missing: Redis, or a right."""
    return _distq(installation, "check", ["check", *target])


def _distq(installation: Installation, name: str, arguments: Sequence[str], **variables: str) -> Object:
    """Return a container that runs distq, by the Secret's settings and those of the installation."""
    given = redis_variables(installation) | variables | installation.variables
    return {
        "name": name,
        "image": installation.image,
        "args": list(arguments),
        "envFrom": [{"secretRef": {"name": installation.of("redis")}}],
        **({"env": [{"name": name, "value": value} for name, value in given.items()]} if given else {}),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": confined(),
    }


def _apart(labels: Object) -> Object:
    """Return that pods are on several nodes where there are several."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
