"""The objects of an installation, by the target's watches and the options."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from distq.cli.manifests import objects
from distq.cli.manifests.access import Access, Plural, guess_plural
from distq.cli.manifests.installation import Installation, Manifest
from distq.cli.manifests.roles import informer_rights, role_manifests, worker_rights
from distq.cli.manifests.text import in_order
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


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Optional objects, and the rights of reconciles beside reading watched objects."""

    keda: bool = False
    dashboard: bool = False
    service_monitor: bool = False
    accesses: Sequence[Access] = ()
    ask_cluster: bool = False


def contents(installation: Installation, choices: Choices) -> list[Manifest]:
    """Return all objects, in the order in which they are best applied."""
    return in_order(_contents(installation, choices))


def comment(installation: Installation, choices: Choices) -> str:
    """Return the comment above all objects."""
    text = _HEAD + ("\n" + _LOGIN if choices.dashboard else "")
    text = text.format(
        target=installation.target,
        namespace=installation.namespace,
        redis=installation.of("redis"),
        dashboard=installation.of("dashboard"),
        secret=_OF_OWN_REDIS if installation.own_redis else "DISTQ_REDIS_URL=redis://...",
    )
    if all({*access.verbs} <= {"get", "list", "watch"} for access in choices.accesses):
        text += "\n" + _NO_WRITES
    return "\n".join(f"# {line}" for line in text.splitlines())


def _contents(installation: Installation, choices: Choices) -> Iterator[Manifest]:
    least, most = installation.workers
    if choices.keda and least == most:
        raise ConfigError(f"nothing for KEDA to choose: {least} workers. Give a range, such as 2-10.")
    components = ["informer"] * installation.informs + ["worker"] + ["dashboard"] * choices.dashboard
    scraped = not choices.service_monitor
    yield from _roles(installation, choices)
    for component in components:
        yield objects.deployment(installation, component, scraped=scraped)
    if installation.own_redis:
        yield from objects.redis(installation)
    if least != most:
        yield objects.autoscaler(installation, keda=choices.keda)
    yield from objects.disruption_budgets(installation)
    yield from objects.policies(installation, components)
    if choices.service_monitor:
        yield from objects.monitoring(installation)


def _roles(installation: Installation, choices: Choices) -> Iterator[Manifest]:
    plural = _asked_for() if choices.ask_cluster else guess_plural
    if installation.informs:
        yield from role_manifests(installation, "informer", informer_rights(installation, plural))
    rights = worker_rights(installation, plural, choices.accesses)
    yield from role_manifests(installation, "worker", rights)


def _asked_for() -> Plural:
    """Return what asks the API server."""
    from distq.client.client import Client

    client = Client()
    return lambda resource: client.resolve(resource).plural
