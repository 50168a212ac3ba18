"""Informers, workers and the dashboard as Deployments, within the restricted pod security standard."""

from collections.abc import Sequence
from math import ceil

from distq.cli.manifests.installation import DASHBOARD_PORT, HTTP_PORT, Installation, Manifest, Object
from distq.cli.manifests.redis import redis_variables
from distq.cli.manifests.security import confined, restricted

INFORMERS = 2

_USER = 1000
"""As whom the image runs."""

_AFTER_GRACE = 5
"""Seconds from the end of the grace period to SIGKILL; a process ends within two of them."""

_WORKERS = "The memory is a small program's: measure yours. With a limit of processor time claims may lapse."
_LOOK = """\
It asks for the names and passwords of its Secret, and answers at http://localhost:{port}/ after:
  kubectl port-forward --namespace {namespace} deployment/{name} {port}
For an Ingress add --allowed-host with its name, and to the network policy from where it comes."""


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
    """Return the dashboard's Deployment, which has no rights in the cluster at all, and a login."""
    folder, secret = "/etc/distq", installation.of("dashboard")  # called as the Deployment
    listens = ["--bind", f"0.0.0.0:{DASHBOARD_PORT}"]
    login = ["--users", f"{folder}/users", "--secret", f"{folder}/secret"]
    container = _distq(installation, "dashboard", ["dashboard", *listens, *login]) | {
        "ports": [{"name": "http", "containerPort": DASHBOARD_PORT}],
        "volumeMounts": [{"name": "login", "mountPath": folder, "readOnly": True}],
    }
    by_name = [{"name": "Host", "value": "localhost"}]
    container["readinessProbe"] = {
        "httpGet": {"path": "/login", "port": "http", "httpHeaders": by_name},
        "timeoutSeconds": 2,
    }
    pod = {
        "automountServiceAccountToken": False,
        "securityContext": restricted(_USER, _USER),
        "containers": [container],
        "volumes": [{"name": "login", "secret": {"secretName": secret}}],
    }
    look = _LOOK.format(namespace=installation.namespace, name=secret, port=DASHBOARD_PORT)
    return Manifest(_deployment(installation, "dashboard", pod, replicas=1, scraped=False), look)


def dashboard_secret_command(installation: Installation) -> str:
    """Return the command that makes the Secret of the dashboard's login."""
    users = 'users="ada:operator:$(distq dashboard --hash-password)"'
    place = f"--namespace {installation.namespace} {installation.of('dashboard')}"
    signed = 'secret="$(openssl rand -hex 32)"'
    return f"kubectl create secret generic {place} --from-literal={users} --from-literal={signed}"


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
