"""The command that serves the dashboard."""

import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from distq.cli.options import FILE, command, with_settings
from distq.cli.queue_access import inspector_of
from distq.config import Settings
from distq.errors import ConfigError

if TYPE_CHECKING:
    from distq.dashboard.access_policy import AccessPolicy

_logger = logging.getLogger("distq.dashboard")


def _hash_a_password(context: click.Context, parameter: click.Parameter, asked: bool) -> None:  # noqa: ARG001 - click's
    if not asked or context.resilient_parsing:
        return
    from distq.dashboard.users import hash_password

    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    click.echo(hash_password(password))
    context.exit()


class _Role(click.Choice[str]):
    """A role of the dashboard; the names of 0.1.0 are accepted until 0.3."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from distq.dashboard.users import OLD_ROLES

        current = OLD_ROLES.get(value, value)
        if current != value:
            click.echo(f'the role "{value}" is "{current}" now.', err=True)
        return super().convert(current, param, ctx)


@command("distq dashboard --bind 127.0.0.1:8080")
@click.option("--bind", default="127.0.0.1:9181", show_default=True, metavar="ADDRESS[:PORT]")
@click.option("--actions", is_flag=True, help="Without a login: allow repairs.")
@click.option("--read-only", is_flag=True, help="Refuse all repairs, for every role.")
@click.option("--users", type=FILE, help="Users: lines of name:role:hash; the role is viewer or operator.")
@click.option(
    "--hash-password",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_hash_a_password,
    help="Ask for a password, or read it from stdin; print its hash and exit.",
)
@click.option("--secret", type=FILE, help="Key that signs logins; without it a restart ends them.")
@click.option(
    "--trusted-header",
    metavar="NAME",
    help="Header in which a proxy names the user, such as X-Forwarded-User.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="NETWORK",
    help="Addresses of trusted proxies, such as 10.0.0.0/8; may be given several times.",
)
@click.option(
    "--role",
    "header_role",
    type=_Role(["viewer", "operator"]),
    help="Role of users whom the proxy names and --users does not.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="Host name to answer to, beside localhost; may be given several times.",
)
@click.option("--url-prefix", default="", metavar="PATH", help="Prefix of all URLs, such as /distq.")
@with_settings()
def dashboard(*, settings: Settings, as_json: bool, bind: str, **choices: Any) -> None:  # noqa: ARG001 - of all commands
    """Serve queues, items and workers as web pages, for this machine alone or with a login."""
    from distq.dashboard import serve

    policy = _policy(**choices)
    host, port = _split(bind)
    policy.require_bindable(host)
    inspector = inspector_of(settings)
    inspector.queues()  # a Redis that refuses us is reported now, not by a page
    _report_unread_settings()
    serve(inspector, policy, host=host, port=port)


def _report_unread_settings() -> None:
    """Warn of rq-dashboard's settings, so that a password in one of them does not pass for a login."""
    unread = sorted(name for name in os.environ if name.startswith("RQ_DASHBOARD_"))
    if unread:
        _logger.warning(
            "settings of rq-dashboard are not read: %s. Use options: distq dashboard --help",
            ", ".join(unread),
        )


def _policy(
    *,
    users: Path | None,
    secret: Path | None,
    trusted_proxies: Sequence[str],
    allowed_hosts: Sequence[str],
    url_prefix: str,
    **choices: Any,
) -> "AccessPolicy":
    from distq.dashboard.access_policy import AccessPolicy
    from distq.dashboard.proxies import parse_network
    from distq.dashboard.users import Users

    if secret is not None:
        choices["secret"] = _read(secret)
    return AccessPolicy(
        users=None if users is None else Users(users),
        trusted_proxies=[parse_network(text) for text in trusted_proxies],
        allowed_hosts=frozenset(map(str.lower, allowed_hosts)),
        url_prefix=url_prefix.rstrip("/"),
        **choices,
    )


def _read(secret: Path) -> bytes:
    try:
        return secret.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"cannot read secret {secret}: {error.strerror}.") from None


def _split(bind: str) -> tuple[str, int]:
    host, colon, port = bind.rpartition(":")
    if not colon or bind.endswith("]") or (":" in host and not host.startswith("[")):
        return bind.strip("[]"), 9181
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise ConfigError(f'bad --bind: "{bind}" has no port number. Give ADDRESS:PORT.')
    return host.strip("[]") or "127.0.0.1", int(port)
