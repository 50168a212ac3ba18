"""The command ``distq demo``."""

import click


@click.command()
def demo() -> None:
    """Show it all."""
