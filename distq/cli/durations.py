"""Durations as people write them on the command line, and as its tables show them."""

from typing import Any

import click

from distq.seconds import parse_seconds
from distq.wording import age


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


def since(moment: float | None, now: float) -> str:
    """Return how long ago a moment was, for a table."""
    return "-" if moment is None else age(now - moment)


def until(moment: float | None, now: float) -> str:
    """Return how far away a moment is, for a table."""
    if moment is None:
        return "-"
    return f"in {age(moment - now)}" if moment > now else "now"
