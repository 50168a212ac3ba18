"""Find kube-apiserver and etcd, or build them: ``python -m distq.testing.envtest``."""

import shlex

import click

from distq.errors import ConfigError
from distq.testing import envtest


@click.command(envtest.COMMAND)
def main() -> None:
    """Print where kube-apiserver and etcd are, as a line for a shell; build them once where they are not.

    They are where KUBEBUILDER_ASSETS says. Without it they are built with Go from the sources of Kubernetes,
    into ~/.cache/distq: on two cores that takes about three minutes and 2 GB of memory, and the modules come
    from Go's proxy. A later call finds them there.

        eval "$(python -m distq.testing.envtest)"
    """
    try:
        folder = envtest.build_assets()
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"export {envtest.VARIABLE}={shlex.quote(str(folder))}")


if __name__ == "__main__":
    main()
