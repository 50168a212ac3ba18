"""Redis of an installation: by a Secret that the operator makes, or one of its own."""

from collections.abc import Iterator

from distq.cli.manifests.installation import Installation, Manifest, Object
from distq.cli.manifests.security import confined, restricted

PORT = 6379
PASSWORD = "DISTQ_REDIS_PASSWORD"  # noqa: S105  the variable's name

_IMAGE = "redis:7-alpine"
_USER, _GROUP = 999, 1000
"""Those of the image."""

_PING = "redis-cli ping | grep -q PONG"
_CHOOSE = """\
One Redis with an append-only file: a restart loses a second at most, and nothing runs meanwhile. It refuses
adds at 200 MB, well below its limit, since a rewrite of the file may take as much again. Choose the size of
its volume, and a storage class where there is no default."""


def redis_variables(installation: Installation) -> dict[str, str]:
    """Return the variables that lead to a Redis of the installation's own; its password is in the Secret."""
    if not installation.own_redis:
        return {}
    return {"DISTQ_REDIS_URL": f"redis://{installation.of('redis')}:{PORT}/0"}


def secret_command(installation: Installation) -> str:
    """Return the command that makes the Secret."""
    content = (
        f'{PASSWORD}="$(openssl rand -hex 24)"' if installation.own_redis else "DISTQ_REDIS_URL=redis://..."
    )
    place = f"--namespace {installation.namespace} {installation.of('redis')}"
    return f"kubectl create secret generic {place} --from-literal={content}"


def redis(installation: Installation) -> Iterator[Manifest]:
    """Yield a Redis that keeps an append-only file, and its Service."""
    metadata, labels = installation.metadata("redis"), installation.labels("redis")
    ports = [{"name": "redis", "port": PORT, "targetPort": "redis"}]
    yield Manifest(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": ports},
        }
    )
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
    }
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": restricted(_USER, _GROUP) | {"fsGroup": _GROUP},
        "containers": [_container(installation)],
    }
    spec = {
        "serviceName": metadata["name"],
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        "volumeClaimTemplates": [claim],
    }
    yield Manifest(
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}, _CHOOSE
    )


def _container(installation: Installation) -> Object:
    password = {"secretKeyRef": {"name": installation.of("redis"), "key": PASSWORD}}
    keeps = ["--appendonly", "yes", "--maxmemory", "200mb", "--maxmemory-policy", "noeviction"]
    ping = {"exec": {"command": ["sh", "-c", _PING]}, "timeoutSeconds": 3}
    return {
        "name": "redis",
        "image": _IMAGE,
        "args": [*keeps, "--requirepass", "$(REDISCLI_AUTH)"],
        "env": [{"name": "REDISCLI_AUTH", "valueFrom": password}],
        "ports": [{"name": "redis", "containerPort": PORT}],
        "livenessProbe": ping | {"failureThreshold": 10},
        "readinessProbe": ping,
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": confined(),
    }
