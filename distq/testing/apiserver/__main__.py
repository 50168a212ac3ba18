"""Run the emulated API server in a process of its own: ``python -m distq.testing.apiserver``."""

from pathlib import Path

import click

from distq.errors import ConfigError
from distq.signals import next_signal, received_signals
from distq.testing.apiserver import EmulatedApiServer


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind.")
@click.option("--port", default=8001, show_default=True, help="Port to bind; 0 is any free one.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="File to write a kubeconfig to.")
@click.option("--server", help="The URL in the kubeconfig, where clients see another address.")
@click.option(
    "--manifest",
    "manifests",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML to create at the start; repeatable.",
)
def main(
    host: str, port: int, kubeconfig: Path | None, server: str | None, manifests: tuple[Path, ...]
) -> None:
    """Serve an emulated Kubernetes API until SIGTERM, Ctrl-C or the end of the terminal."""
    try:
        with received_signals() as signals, EmulatedApiServer(host=host, port=port) as api_server:
            api_server.load(*manifests)
            if kubeconfig is not None:
                api_server.kubeconfig(kubeconfig, server=server)
            click.echo(f"emulated Kubernetes API at {api_server.url}")
            next_signal(signals)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
