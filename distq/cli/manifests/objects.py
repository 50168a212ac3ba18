"""The objects of an installation, by the target's watches and the options, and as text.

They are templates of ``objects.yaml``, filled for a component.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import ceil
from pathlib import Path
from string import Template
from typing import Any

import yaml

from distq.cli.manifests.installation import COMPONENT, HTTP_PORT, NAME, Installation, Manifest, Object
from distq.cli.manifests.roles import Plural, Rights, guess_plural, informer_rights, worker_rights
from distq.errors import ConfigError
from distq.metrics import DEPTH

WAITING_ROUNDS = 10
"""Reconciles of each slot for which items may wait before another worker is added."""

_AFTER_GRACE = 5
"""Seconds from the end of the grace period to SIGKILL; a process ends within two of them."""

_KINDS = (
    *("ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Service", "Deployment"),
    *("StatefulSet", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy", "ScaledObject"),
    "ServiceMonitor",
)
"""Objects that others refer to come first (the order of kustomize and Helm)."""


def contents(installation: Installation, *, ask_cluster: bool) -> list[Manifest]:
    """Return all objects, in the order in which they are best applied; a cluster may name the plurals."""
    found = _contents(installation, _asked_for() if ask_cluster else guess_plural)
    return sorted(found, key=lambda manifest: _KINDS.index(manifest.content["kind"]))


def _contents(installation: Installation, plural: Plural) -> Iterator[Manifest]:
    least, most = installation.workers
    if installation.keda and least == most:
        raise ConfigError(f"nothing for KEDA to choose: {least} workers. Give a range, such as 2-10.")
    if installation.program.needs_lease:
        yield from _roles(installation, "informer", informer_rights(installation, plural))
        # one informer may be away while nodes are drained, and a quarter of the workers
        yield _manifest(installation, "disruption budget", "informer", away=1)
    yield from _roles(installation, "worker", worker_rights(installation, plural))
    yield _manifest(installation, "disruption budget", "worker", away="25%")
    for component in installation.components:
        yield _deployment(installation, component)
    if installation.own_redis:
        yield _manifest(installation, "redis service", "redis")
        yield _manifest(installation, "redis", "redis")
    if least != most:
        yield _autoscaler(installation)
    yield from _policies(installation)
    if installation.service_monitor:  # which finds the pods that have metrics by a Service
        yield _manifest(installation, "metrics service", "metrics")
        yield _manifest(installation, "service monitor", "metrics")


def _asked_for() -> Plural:
    from distq.client.client import Client

    client = Client()
    return lambda resource: client.resolve(resource).plural


def _roles(installation: Installation, component: str, rights: Rights) -> Iterator[Manifest]:
    """Yield the service account of a component, and for each place a role and its binding."""
    yield _manifest(installation, "service account", component)
    for place in rights.namespaces:
        kind, metadata = "Role", installation.metadata(component, namespace=place)
        if place is None:  # it is in no namespace, so its name has that of its account
            kind, metadata["name"] = "ClusterRole", f"{installation.namespace}:{installation.of(component)}"
            del metadata["namespace"]
        about = {"kind": kind, "role": metadata, "role_name": metadata["name"]}
        elsewhere = "" if place in {None, installation.namespace} else f"The namespace {place} must exist."
        rules = list(rights.rules(place))
        yield _manifest(installation, "role", component, elsewhere=elsewhere, rules=rules, **about)
        yield _manifest(installation, "binding", component, **about)


def _deployment(installation: Installation, component: str) -> Manifest:
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
        replicas=least if least == most else None,  # else an apply would undo the autoscaler's choice
        seconds=ceil(installation.settings.grace_period) + _AFTER_GRACE,
        annotations=None if installation.service_monitor else annotations,
        environment=_variables(environment),
        served=_variables(installation.redis_variables | http | installation.variables),
    )


def _autoscaler(installation: Installation) -> Manifest:
    name = "scaled object" if installation.keda else "autoscaler"
    least, most = installation.workers
    queues = []
    for controller in installation.program.controllers:
        waiting = WAITING_ROUNDS * (installation.settings.concurrency or controller.concurrency)
        values = {"depth": DEPTH.name, "queue": controller.name, "waiting": str(waiting)}
        queues.append(_filled(_templates()[name]["queue"], values))
    return _manifest(installation, name, "worker", least=least, most=most, depth=DEPTH.name, queues=queues)


def _policies(installation: Installation) -> Iterator[Manifest]:
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


def _pods(installation: Installation, components: Sequence[str]) -> Object:
    one_of = {"key": COMPONENT, "operator": "In", "values": list(components)}
    return {"matchLabels": {NAME: installation.name}, "matchExpressions": [one_of]}


def _variables(given: Mapping[str, str]) -> list[Object] | None:
    return [{"name": name, "value": value} for name, value in given.items()] or None


def _manifest(installation: Installation, template: str, component: str, **values: Any) -> Manifest:
    values |= {
        "name": installation.of(component),
        "namespace": installation.namespace,
        "metadata": installation.metadata(component),
        "labels": installation.labels(component),
        "every_pod": {NAME: installation.name},
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


def as_yaml(manifests: Iterable[Manifest]) -> Iterator[str]:
    """Yield each manifest as a YAML document, below its comment."""
    for manifest in manifests:
        comment = "".join(f"# {line}\n" for line in manifest.comment.splitlines())
        text = yaml.dump(manifest.content, Dumper=_Dumper, sort_keys=False, width=110)
        yield f"---\n{comment}{text}"


class _Dumper(yaml.SafeDumper):
    """Writes what occurs twice twice, and lists indented."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, indentless=False)


def comment(installation: Installation) -> str:
    """Return the comment above all objects."""
    texts = ["head", *["login"] * installation.dashboard]
    if all({*access.verbs} <= {"get", "list", "watch"} for access in installation.accesses):
        texts.append("no writes")
    values = {
        "target": installation.target,
        "namespace": installation.namespace,
        "redis": installation.of("redis"),
        "dashboard": installation.of("dashboard"),
        "secret": _templates()["own redis" if installation.own_redis else "another redis"],
    }
    lines = "".join(_filled(_templates()[text], values) for text in texts).splitlines()
    return "\n".join(f"# {line}" for line in lines)
