"""The command ``distq manifests``: the objects that run a target in a cluster, derived from the target."""

import re
from collections.abc import Sequence
from typing import Any

import click

from distq.cli.options import LEASE, REDIS, WORK, command, use_kubeconfig, with_settings
from distq.cli.output import print_json
from distq.config import Settings, variable_of
from distq.errors import ConfigError
from distq.extras import require_extra


def _workers(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, int]:  # noqa: ARG001
    """Return the least and the most of ``3``, or of ``2-10``."""
    match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", value)
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= least <= most:
        raise ConfigError(f'bad --workers: "{value:.40}" is no number of workers. Give 3, or 2-10.')
    return least, most


@command("distq manifests foos --image foos:1 --writes apps/v1/Deployment | kubectl apply -f -")
@click.argument("target")
@click.option("--image", required=True, help="Image with distq and TARGET.")
@click.option(
    "--namespace", default="default", show_default=True, help="Namespace for all objects; it must exist."
)
@click.option(
    "--workers",
    callback=_workers,
    default="2-10",
    metavar="MIN[-MAX]",
    show_default=True,
    help="Number of workers; for a range an autoscaler chooses, by the queue's depth.",
)
@click.option("--keda", is_flag=True, help="Scale by KEDA, instead of a HorizontalPodAutoscaler.")
@click.option(
    "--reads",
    multiple=True,
    metavar="RESOURCE[:VERBS]",
    help="Resources that reconciles also read, such as v1/Secret, or v1/Secret:get,list; may be repeated.",
)
@click.option(
    "--writes",
    multiple=True,
    metavar="RESOURCE[:VERBS]",
    help="Resources that reconciles write, such as apps/v1/Deployment:create,patch; may be repeated.",
)
@click.option("--redis", "own_redis", is_flag=True, help="Add a Redis with an append-only file.")
@click.option("--dashboard", is_flag=True, help="Add the dashboard, with a login.")
@click.option("--service-monitor", is_flag=True, help="Add a ServiceMonitor, of Prometheus' operator.")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    callback=use_kubeconfig,
    help="Cluster to ask for the plurals of kinds; without one English plurals are used.",
)
@with_settings(LEASE, WORK)
def manifests(
    *,
    settings: Settings,
    as_json: bool,
    target: str,
    reads: Sequence[str],
    writes: Sequence[str],
    kubeconfig: str | None,
    **choices: Any,
) -> None:
    """Print the manifests that run TARGET in a cluster, derived from its watches."""
    _refuse_secrets(click.get_current_context())
    with require_extra("kubernetes"):
        from distq.cli.manifests.installation import Installation
        from distq.cli.manifests.objects import as_yaml, comment, contents
        from distq.cli.manifests.roles import READS, WRITES, Access
    from distq.cli.target import load_program

    accesses = [Access.parse(text, READS) for text in reads]
    accesses += [Access.parse(text, WRITES) for text in writes]
    installation = Installation(
        target=target,
        program=load_program(target),
        settings=settings,
        accesses=accesses,
        **choices,
    )
    printed = contents(installation, ask_cluster=kubeconfig is not None)
    if as_json:
        for manifest in printed:
            print_json(manifest.content)
        return
    click.echo(comment(installation))
    for document in as_yaml(printed):
        click.echo(document, nl=False)


def _refuse_secrets(context: click.Context) -> None:
    """Refuse Redis' own settings: they may be secret, and would be left out."""
    for name in REDIS:
        if name != "prefix" and context.params.get(name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{flag} is not printed. Put {variable_of(name)} into the Secret.")
