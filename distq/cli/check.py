"""The command that says whether distq can work here: Redis, and the cluster where there is one."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from distq.cli.options import with_settings
from distq.cli.output import escape, print_json
from distq.config import Settings
from distq.errors import ApiError, ConfigError

if TYPE_CHECKING:
    from distq.client.client import Client

ACL = (
    "ACL SETUSER distq on >PASSWORD resetkeys ~distq:* -@all +@read +@write +@connection -@dangerous "
    "+eval +evalsha +script|load +time +info +client|unblock"
)
"""A Redis user who may do what distq does, and nothing else."""


@click.command()
@click.argument("target", required=False)
@click.option("--acl", is_flag=True, help="Print the Redis command that makes a user for distq, and exit.")
@with_settings()
def check(*, settings: Settings, as_json: bool, target: str | None, acl: bool) -> None:
    """Check Redis and the API server, and with TARGET what its controllers watch."""
    if acl:
        click.echo(ACL)
        return
    from distq.redisio.connection import Connection

    resources = _resources(target) if target else []
    problems = 0
    for finding in (*Connection(settings=settings).check(), *_check_cluster(resources)):
        level, _, text = finding.partition(" ")
        problems += level == "FAIL"
        if as_json:
            print_json({"level": level, "finding": text.strip()})
        else:
            click.echo(escape(finding))
    if problems:
        raise click.ClickException(f"{problems} problem{'' if problems == 1 else 's'}")


def _resources(target: str) -> list[str]:
    from distq.cli.target import load_controllers

    watches = [watch for controller in load_controllers(target) for watch in controller.watches]
    return list(dict.fromkeys(watch.resource for watch in watches if hasattr(watch, "resource")))


def _check_cluster(resources: Sequence[str]) -> Iterator[str]:
    """Yield findings about the API server; only a target that watches cannot do without one."""
    missing = "FAIL" if resources else "WARN"
    try:
        from distq.client.client import Client

        client = Client(timeout=5.0)
        version = json.loads(client.request("GET", "/version"))
    except ConfigError as error:
        yield f"{missing}  {error}"
        return
    except ApiError as error:
        yield f"FAIL  {error}"
        return
    yield f"OK    API server {version['major']}.{version['minor']} at {client.server}"
    for resource in resources:
        yield _check_resource(client, resource)


def _check_resource(client: "Client", resource: str) -> str:
    """Try what an informer does: a list of one object, and a watch that ends by itself."""
    may = "list"
    try:
        path = client.resolve(resource).path()
        client.request("GET", path, query={"limit": "1"})
        may = "watch"
        with client.stream(path, query={"watch": "1", "timeoutSeconds": "1"}, read_timeout=5.0):
            pass
    except ApiError as error:
        return f"FAIL  may not {may} {resource}: {error}"
    return f"OK    may list and watch {resource}"
