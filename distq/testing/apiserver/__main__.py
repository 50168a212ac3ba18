"""Run the emulated API server in a process of its own: ``python -m distq.testing.apiserver``."""

import signal
import threading
from pathlib import Path

import click

from distq.errors import ConfigError
from distq.testing.apiserver import EmulatedApiServer

_LONGEST_SLEEP = 1.0
"""Seconds that the main thread waits at a time: a signal that another one received does not wake it."""


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
    """Serve an emulated Kubernetes API until SIGTERM or Ctrl-C."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with EmulatedApiServer(host=host, port=port) as api_server:
            api_server.load(*manifests)
            if kubeconfig is not None:
                api_server.kubeconfig(kubeconfig, server=server)
            click.echo(f"emulated Kubernetes API at {api_server.url}")
            while not stop.wait(_LONGEST_SLEEP):
                pass
    except ConfigError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
