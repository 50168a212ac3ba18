"""The command that serves rq-dashboard's pages over distq's queues."""

import click

from distq.cli.help import command
from distq.cli.look import inspector
from distq.cli.options import with_settings
from distq.config import Settings
from distq.errors import ConfigError


@command("distq dashboard --bind 127.0.0.1:8080")
@click.option("--bind", default="127.0.0.1:9181", show_default=True, metavar="ADDRESS[:PORT]")
@click.option("--read-only", is_flag=True, help="Refuse actions; for now the dashboard always does.")
@with_settings()
def dashboard(*, settings: Settings, as_json: bool, bind: str, read_only: bool) -> None:  # noqa: ARG001 - one mode yet
    """Serve queues, items and workers as web pages, to this machine alone."""
    from distq.dashboard import serve

    host, port = _split(bind)
    eye = inspector(settings)
    eye.queues()  # a Redis that refuses us is reported now, not by a page
    serve(eye, host=host, port=port)


def _split(bind: str) -> tuple[str, int]:
    host, colon, port = bind.rpartition(":")
    if not colon or bind.endswith("]"):
        return bind.strip("[]"), 9181
    if not port.isdigit() or int(port) > 65535:
        raise ConfigError(f'bad --bind: "{bind}" has no port number. Give ADDRESS:PORT.')
    return host.strip("[]") or "127.0.0.1", int(port)
