"""The command that checks whether distq can work here: Redis, and the cluster where there is one."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from distq.cli.options import command, with_kubeconfig, with_settings
from distq.cli.output import escape, print_json, styled
from distq.config import Settings, lease_name
from distq.errors import ApiError, ConfigError, RedisError
from distq.redisio.roles import ROLES, user_of
from distq.wording import counted

if TYPE_CHECKING:
    from distq.client.client import Client
    from distq.redisio.connection import Connection

LEASE = "coordination.k8s.io/v1/Lease"
_COLOURS = {"OK": "green", "WARN": "yellow", "FAIL": "red"}
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@command("distq check foos --kubeconfig ~/.kube/staging")
@click.argument("target", required=False)
@with_kubeconfig
@click.option(
    "--acl",
    "roles",
    multiple=True,
    type=click.Choice(list(ROLES)),
    help="Print the Redis command that makes a user with this role, and exit; several roles make one user.",
)
@click.option(
    "--queue", "queues", multiple=True, help="With --acl: this queue only; may be given several times."
)
@with_settings(("lease_name", "lease_namespace"))
def check(
    *,
    settings: Settings,
    as_json: bool,
    target: str | None,
    roles: Sequence[str],
    queues: Sequence[str],
) -> None:
    """Check Redis, its queues and the API server; with TARGET also its watches and its Lease."""
    if roles:
        click.echo(_user_of(roles, queues, settings))
        return
    if queues:
        raise click.UsageError("--queue goes with --acl.")
    from distq.redisio.connection import Connection

    findings = _check_cluster(_needs(target, settings) if target else ([], None))
    problems = 0
    connection = Connection(settings=settings)
    of_redis = connection.check()
    if not any(finding.startswith("FAIL") for finding in of_redis):
        of_redis += _check_contents(connection)
    for finding in (*of_redis, *findings):
        level, _, text = finding.partition(" ")
        problems += level == "FAIL"
        if as_json:
            print_json({"level": level, "finding": text.strip()})
        else:
            click.echo(styled(escape(level), fg=_COLOURS.get(level)) + escape(finding.removeprefix(level)))
    if problems:
        raise click.ClickException(counted(problems, "problem"))


def _user_of(roles: Sequence[str], queues: Sequence[str], settings: Settings) -> str:
    from distq.redisio.address import Address

    url = Address(None, settings).url
    return user_of(
        roles,
        prefix=settings.prefix,
        queues=queues,
        database=int(url.options.get("db") or 0),
        cluster=url.topology == "cluster",
    )


def _check_contents(connection: "Connection") -> Iterator[str]:
    from distq.redisio import contents

    try:
        yield from contents.findings(connection)
    except (ConfigError, RedisError) as error:
        yield f"WARN  cannot look into the queues: {error}"


_Needs = tuple[Sequence[tuple[str, str | None]], tuple[str | None, str] | None]
"""Resources and namespaces of a target's watches, and namespace and name of its Lease, if it has one."""


def _needs(target: str, settings: Settings) -> _Needs:
    from distq.cli.target import load_program

    program = load_program(target)
    if not program.needs_lease:
        return [], None
    watched = [
        (watch.resource, namespace) for watch in program.watches for namespace in watch.namespaces or (None,)
    ]
    lease = (settings.lease_namespace, settings.lease_name or lease_name(target, settings.prefix))
    return list(dict.fromkeys(watched)), lease


def _check_cluster(needs: _Needs) -> Iterator[str]:
    """Yield findings about the API server; only a target that watches cannot do without one."""
    watched, lease = needs
    missing = "FAIL" if lease else "WARN"
    try:
        from distq.client.client import Client  # raises ConfigError, too: without its extra

        client = Client(timeout=5.0)
        version = json.loads(client.request("GET", "/version"))
    except ConfigError as error:
        yield f"{missing}  {error}"
        return
    except ApiError as error:
        yield f"FAIL  {error}"
        return
    yield f"OK    API server {version['major']}.{version['minor']} at {client.server}"
    for resource, namespace in watched:
        yield _check_resource(client, resource, namespace)
    if lease:
        namespace, name = lease
        yield _check_lease(client, namespace or client.namespace, name)


def _check_resource(client: "Client", resource: str, namespace: str | None) -> str:
    """List one object, and watch for a second, as an informer does."""
    from distq.client.resources import UnknownResource

    what = resource if namespace is None else f"{resource} in {namespace}"
    may = "list"
    try:
        path = client.resolve(resource).path(namespace)
        client.request("GET", path, query={"limit": "1"})
        may = "watch"
        with client.stream(path, query={"watch": "1", "timeoutSeconds": "1"}, read_timeout=5.0):
            pass
    except UnknownResource as error:
        return f"FAIL  cannot watch {what}: unknown to the API server. {error.remedy}"
    except ApiError as error:
        return f"FAIL  may not {may} {what}: {error}"
    return f"OK    may list and watch {what}"


def _check_lease(client: "Client", namespace: str, name: str) -> str:
    """Get an informer's Lease, and ask for the right to write it; an informer would retry for ever."""
    lease = f"the Lease {namespace}/{name}"
    may = "get"
    try:
        needed = ("update",) if client.get(LEASE, f"{namespace}/{name}") else ("create", "update")
        may = " or ".join(needed)
        refused = [verb for verb in needed if not _may_lease(client, verb, namespace, name)]
    except ApiError as error:
        return f"FAIL  may not {may} {lease}: {error}"
    if refused:
        return f"FAIL  may not {' or '.join(refused)} {lease}: no informer can lead. Grant it by a Role."
    return f"OK    may {' and '.join(('get', *needed))} {lease}"


def _may_lease(client: "Client", verb: str, namespace: str, name: str) -> bool:
    what = {"verb": verb, "group": "coordination.k8s.io", "resource": "leases", "namespace": namespace}
    if verb != "create":  # for which no Role can give a name
        what["name"] = name
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": what},
    }
    answer = json.loads(client.request("POST", REVIEWS, body=review))
    return bool(answer["status"]["allowed"])
