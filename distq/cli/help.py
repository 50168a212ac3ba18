"""Commands whose help shows their own options; ``--help-all`` adds those that commands share."""

from collections.abc import Callable
from typing import Any

import click

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
        if ctx.meta.get(__name__):
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
        for parameter in reversed(parameters):
            function = parameter(function)
        return function

    return decorate


def _show_all(ctx: click.Context, parameter: click.Parameter, asked: bool) -> None:  # noqa: ARG001 - click's
    if asked and not ctx.resilient_parsing:
        ctx.meta[__name__] = True
        click.echo(ctx.get_help())
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    hidden=True,  # its line is below the options
)
