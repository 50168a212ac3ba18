"""The objects of an installation, by the target's watches and the options, and as text."""

from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from distq.cli.manifests import objects
from distq.cli.manifests.installation import Installation, Manifest
from distq.cli.manifests.roles import Plural, guess_plural, informer_rights, role_manifests, worker_rights
from distq.errors import ConfigError

_HEAD = """\
The manifests of {target}, derived from its watches. Create the Secret first:
  kubectl create secret generic --namespace {namespace} {redis} --from-literal={secret}
It holds the settings DISTQ_REDIS_* as variables, as far as you need them."""
_LOGIN = """\
And the Secret with the users of the dashboard, a line name:role:hash for each:
  kubectl create secret generic --namespace {namespace} {dashboard} \
--from-literal=users="ada:operator:$(distq dashboard --hash-password)" \
--from-literal=secret="$(openssl rand -hex 32)"\
"""
_OF_OWN_REDIS = 'DISTQ_REDIS_PASSWORD="$(openssl rand -hex 24)"'
_NO_WRITES = """\
Reconciles may write nothing but events. List the resources that your code writes, such as
--writes apps/v1/Deployment."""

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
    text = _HEAD + ("\n" + _LOGIN if installation.dashboard else "")
    text = text.format(
        target=installation.target,
        namespace=installation.namespace,
        redis=installation.of("redis"),
        dashboard=installation.of("dashboard"),
        secret=_OF_OWN_REDIS if installation.own_redis else "DISTQ_REDIS_URL=redis://...",
    )
    if all({*access.verbs} <= {"get", "list", "watch"} for access in installation.accesses):
        text += "\n" + _NO_WRITES
    return "\n".join(f"# {line}" for line in text.splitlines())


def _contents(installation: Installation, plural: Plural) -> Iterator[Manifest]:
    least, most = installation.workers
    if installation.keda and least == most:
        raise ConfigError(f"nothing for KEDA to choose: {least} workers. Give a range, such as 2-10.")
    if installation.informs:
        yield from role_manifests(installation, "informer", informer_rights(installation, plural))
    yield from role_manifests(installation, "worker", worker_rights(installation, plural))
    for component in installation.components:
        yield objects.deployment(installation, component)
    if installation.own_redis:
        yield from objects.redis(installation)
    if least != most:
        yield objects.autoscaler(installation)
    yield from objects.disruption_budgets(installation)
    yield from objects.policies(installation)
    if installation.service_monitor:
        yield from objects.monitoring(installation)


def _asked_for() -> Plural:
    from distq.client.client import Client

    client = Client()
    return lambda resource: client.resolve(resource).plural
