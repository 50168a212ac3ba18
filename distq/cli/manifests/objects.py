"""The objects of an installation but its roles: templates of ``objects.yaml``, filled for a component."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import ceil
from pathlib import Path
from string import Template
from typing import Any

import yaml

from distq.cli.manifests.installation import COMPONENT, HTTP_PORT, Installation, Manifest, Object
from distq.metrics import DEPTH

WAITING_ROUNDS = 10
"""Reconciles of each slot for which items may wait before another worker is added."""

_AFTER_GRACE = 5
"""Seconds from the end of the grace period to SIGKILL; a process ends within two of them."""


def deployment(installation: Installation, component: str) -> Manifest:
    """Return the Deployment of informers, workers or the dashboard."""
    least, most = installation.workers
    environment = installation.redis_variables | installation.variables
    http = {"DISTQ_HTTP_ADDRESS": f":{HTTP_PORT}"}
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(HTTP_PORT)}
    return _manifest(
        installation,
        component,
        component,
        image=installation.image,
        target=installation.target,
        redis=installation.of("redis"),
        replicas=least if least == most else None,
        seconds=ceil(installation.settings.grace_period) + _AFTER_GRACE,
        annotations=None if installation.service_monitor else annotations,
        environment=_variables(environment),
        served=_variables(installation.redis_variables | http | installation.variables),
    )


def redis(installation: Installation) -> Iterator[Manifest]:
    """Yield a Redis that keeps an append-only file, and its Service."""
    yield _manifest(installation, "redis service", "redis")
    yield _manifest(installation, "redis", "redis")


def autoscaler(installation: Installation) -> Manifest:
    """Return the autoscaler of the workers, by the depth of each queue."""
    name = "scaled object" if installation.keda else "autoscaler"
    least, most = installation.workers
    queues = []
    for controller in installation.controllers:
        waiting = WAITING_ROUNDS * (installation.settings.concurrency or controller.concurrency)
        values = {"depth": DEPTH.name, "queue": controller.name, "waiting": str(waiting)}
        queues.append(_filled(_templates()[name]["queue"], values))
    return _manifest(installation, name, "worker", least=least, most=most, depth=DEPTH.name, queues=queues)


def disruption_budgets(installation: Installation) -> Iterator[Manifest]:
    """Yield that one informer, and a quarter of the workers, may be away while nodes are drained."""
    if installation.informs:
        yield _manifest(installation, "disruption budget", "informer", away=1)
    yield _manifest(installation, "disruption budget", "worker", away="25%")


def policies(installation: Installation) -> Iterator[Manifest]:
    """Yield what the pods of each kind may be asked, and ask."""
    servers = [{"podSelector": _pods(installation, ["redis"])}] if installation.own_redis else None
    elsewhere = "" if installation.own_redis else ", and Redis' port where it is another"
    processes = _pods(installation, [each for each in installation.components if each != "dashboard"])
    yield _manifest(
        installation,
        "policy of processes",
        "process",
        pods=processes,
        servers=servers,
        elsewhere=elsewhere,
    )
    if installation.dashboard:
        pods = _pods(installation, ["dashboard"])
        yield _manifest(installation, "policy of the dashboard", "dashboard", pods=pods, servers=servers)
    if installation.own_redis:
        pods, clients = _pods(installation, ["redis"]), _pods(installation, installation.components)
        yield _manifest(installation, "policy of redis", "redis", pods=pods, clients=clients)


def monitoring(installation: Installation) -> Iterator[Manifest]:
    """Yield the Service by which a ServiceMonitor finds the pods that have metrics, and the monitor."""
    yield _manifest(installation, "metrics service", "metrics")
    yield _manifest(installation, "service monitor", "metrics")


def _pods(installation: Installation, components: Sequence[str]) -> Object:
    one_of = {"key": COMPONENT, "operator": "In", "values": list(components)}
    return {"matchLabels": installation.every_pod(), "matchExpressions": [one_of]}


def _variables(given: Mapping[str, str]) -> list[Object] | None:
    return [{"name": name, "value": value} for name, value in given.items()] or None


def _manifest(installation: Installation, template: str, component: str, **values: Any) -> Manifest:
    values |= {
        "name": installation.of(component),
        "namespace": installation.namespace,
        "metadata": installation.metadata(component),
        "labels": installation.labels(component),
        "every_pod": installation.every_pod(),
    }
    found = _templates()[template]
    return Manifest(_filled(found["object"], values), _filled(found.get("comment", ""), values))


@cache
def _templates() -> Mapping[str, Any]:
    templates: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("objects.yaml").read_bytes())
    return templates


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    """Return a part of a template with values in place of their names; a field of None is left out."""
    if isinstance(template, dict):
        filled = {name: _filled(part, values) for name, part in template.items()}
        return {name: part for name, part in filled.items() if part is not None}
    if isinstance(template, list):
        return [_filled(part, values) for part in template]
    if not isinstance(template, str):
        return template
    name = template.removeprefix("$")
    return values[name] if name != template and name in values else Template(template).safe_substitute(values)
