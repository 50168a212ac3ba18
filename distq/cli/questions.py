"""Questions before a change: asked on stderr, refused without a terminal."""

import sys

import click

from distq.errors import ConfigError


def confirm(question: str, yes: bool) -> None:
    """Ask, unless ``yes``; exit 1 for a no. Raises ConfigError without a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"not asked: {question.removesuffix('?')}: no terminal to answer on. Add --yes.")
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing changed.")
