"""How commands are made: with an example in their help, and the settings as flags beside their variables.

``--help`` shows a command's own options; ``--help-all`` adds those that commands share.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from distq.config import Settings, lease_name, variable_of
from distq.seconds import parse_seconds

_ALL_OPTIONS = f"{__name__}.all"
_MORE = "Connection and logging options: --help-all"


class SharedOption(click.Option):
    """An option that most commands have, which ``--help`` leaves out."""


class Command(click.Command):
    """A command with an example, and with ``--help-all`` where it has shared options."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, ``--help-all`` beside ``--help``."""
        parameters = super().get_params(ctx)
        if any(isinstance(parameter, SharedOption) for parameter in parameters):
            parameters.append(_HELP_ALL)
        return parameters

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the shared ones or how to show them."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        options = (parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option))
        for parameter in options:
            if (record := parameter.get_help_record(ctx)) is not None:
                (shared if isinstance(parameter, SharedOption) else own).append(record)
        with formatter.section("Options"):
            formatter.write_dl(own)
        if ctx.meta.get(_ALL_OPTIONS):
            with formatter.section("Connection and logging"):
                formatter.write_dl(shared)
        elif shared:
            formatter.write_paragraph()
            formatter.write_text(_MORE)


def command(example: str, **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function a command, with an example that its help ends with."""
    return click.command(cls=Command, epilog=f"Example: {example}", **attributes)


def with_parameters(
    *parameters: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command these options and arguments, which its help lists in their order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for parameter in reversed(parameters):  # click lists the one that is applied last first
            function = parameter(function)
        return function

    return decorate


def _show_all(ctx: click.Context, parameter: click.Parameter, asked: bool) -> None:  # noqa: ARG001 - click's
    if asked and not ctx.resilient_parsing:
        ctx.meta[_ALL_OPTIONS] = True
        click.echo(ctx.get_help())
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,  # before a missing argument is an error
    expose_value=False,
    callback=_show_all,
    hidden=True,  # its line is below the options
)


class Seconds(click.FloatRange):
    """A number of seconds, or 90s, 10m, 1h or 2d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        try:
            seconds = parse_seconds(str(value))
        except ValueError:
            self.fail(
                f"{value!r} is no duration. Give seconds, or for instance 90s, 10m, 1h or 2d.", param, ctx
            )
        return float(super().convert(seconds, param, ctx))


FILE = click.Path(dir_okay=False, path_type=Path)
_HELP: dict[str, tuple[Any, str]] = {
    "redis_url": (str, "URL of the Redis with the queues."),
    "redis_username": (str, "Overrides the URL's user."),
    "redis_password": (str, "Overrides the URL's password."),
    "redis_password_file": (FILE, "Read at every connection."),
    "redis_sentinel_username": (str, "User at the Sentinels."),
    "redis_sentinel_password": (str, "Its password."),
    "redis_sentinel_password_file": (FILE, "Read whenever a Sentinel is asked."),
    "redis_ca_file": (FILE, "Certificate authority of a rediss server."),
    "redis_cert_file": (FILE, "Client certificate."),
    "redis_key_file": (FILE, "Its key."),
    "prefix": (str, "Begins the names of all keys."),
    "lease_name": (str, "The Lease that informers compete for."),
    "lease_namespace": (str, "Its namespace."),
    "lease_duration": (Seconds(min=0), "Seconds until followers take over."),
    "renew_deadline": (Seconds(min=0), "Seconds until the leader gives up."),
    "retry_period": (Seconds(min=0), "Seconds between tries."),
    "concurrency": (int, "Reconciles at a time in this process."),
    "fleet_concurrency": (int, "Reconciles at a time in all processes."),
    "fleet_concurrency_per_flow": (int, "Reconciles of one namespace at a time in all processes."),
    "grace_period": (Seconds(min=0), "Seconds that running reconciles get after SIGTERM."),
    "revision": (str, "A new revision enqueues every object once."),
    "http_address": (str, "ADDRESS:PORT of /metrics, /healthz and /readyz."),
    "log_level": (click.Choice(["debug", "info", "warning", "error"]), "Lowest level that distq logs."),
    "log_format": (click.Choice(["text", "json"]), "Format of log lines."),
}
_DEFAULTS = {
    "redis_url": "redis://127.0.0.1:6379/0",
    "lease_name": "PREFIX-TARGET",
    "lease_namespace": "the pod's",
    "concurrency": "the Controller's",
    "fleet_concurrency": "the Controller's",
    "fleet_concurrency_per_flow": "the Controller's",
    "http_address": "off",
}

REDIS = (*(name for name in _HELP if name.startswith("redis_")), "prefix")
LOGS = ("log_level", "log_format")
LEASE = ("lease_name", "lease_namespace", "lease_duration", "renew_deadline", "retry_period", "revision")
WORK = ("concurrency", "fleet_concurrency", "fleet_concurrency_per_flow", "grace_period")
HTTP = ("http_address",)


def use_kubeconfig(context: click.Context, option: click.Parameter, path: str | None) -> str | None:  # noqa: ARG001 - click's
    """Let all Clients of this process, the target's own, too, take their cluster from this file."""
    if path:
        os.environ["KUBECONFIG"] = path
    return path


with_kubeconfig = click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    callback=use_kubeconfig,
    expose_value=False,
    help="The cluster.  [KUBECONFIG]",
)


def with_settings(*groups: tuple[str, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the Redis, logging and ``groups``' flags; it gets ``settings`` and ``as_json``."""
    names = [*(name for group in groups for name in group), *REDIS, *LOGS]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(*, as_json: bool, show_config: bool, verbose: int, **parameters: Any) -> None:
            flags = {name: parameters.pop(name) for name in names}
            if verbose:
                flags["log_level"] = "debug"
            settings = Settings.from_env(**flags)
            if show_config:
                _show(of_target(settings, parameters.get("target")), as_json)
                return
            from distq.cli import logs

            logs.configure(settings.log_level, settings.log_format, libraries=verbose > 1)
            try:
                function(settings=settings, as_json=as_json, **parameters)
            finally:
                logs.flush()

        return with_parameters(
            click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line."),
            *map(_option, names),
            click.option(
                "-v",
                "--verbose",
                count=True,
                cls=SharedOption,
                help="Same as --log-level debug; -vv: everything of all libraries, too.",
            ),
            click.option(
                "--show-config", is_flag=True, cls=SharedOption, help="Print the settings in force and exit."
            ),
        )(command)

    return decorate


def _option(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    setting = next(setting for setting in fields(Settings) if setting.name == name)
    kind, text = _HELP[name]
    default = _DEFAULTS.get(name, setting.default)
    shown = variable_of(name) if default in {None, ""} else f"{variable_of(name)}; {default}"
    cls = SharedOption if name in REDIS + LOGS else click.Option
    return click.option(f"--{name.replace('_', '-')}", name, type=kind, cls=cls, help=f"{text}  [{shown}]")


def of_target(settings: Settings, target: str | None) -> Settings:
    """Return the settings with the Lease that a target's informers compete for."""
    if target is None or settings.lease_name is not None:
        return settings
    return dataclasses.replace(settings, lease_name=lease_name(target, settings.prefix))


def _show(settings: Settings, as_json: bool) -> None:
    masked = settings.masked()
    masked["redis_url"] = masked["redis_url"] or _DEFAULTS["redis_url"]
    if as_json:
        click.echo(json.dumps(masked))
        return
    width = max(map(len, masked))
    for setting in fields(settings):
        value = masked[setting.name]
        shown = _DEFAULTS.get(setting.name, "-") if value is None else value
        default = "  (default)" if getattr(settings, setting.name) == setting.default else ""
        click.echo(f"{setting.name:<{width}}  {'-' if shown == '' else shown}{default}")
