"""Durations as people write them on the command line, and as its tables show them."""

import re
from typing import Any

import click

from distq.wording import age

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Seconds(click.FloatRange):
    """A number of seconds, as the settings have it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds; show those who write a unit how to do without."""
        if re.fullmatch(r"\d+(\.\d+)?[a-z]+", str(value)):
            self.fail(f"{value!r} has a unit. Give seconds, such as 90.", param, ctx)
        return float(super().convert(value, param, ctx))


class Duration(click.ParamType):  # type: ignore[type-arg]  # newer versions of click have one
    """90s, 10m, 1h or 2d, as seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd]?)", str(value))
        if found is None:
            self.fail(f"{value!r} is no duration. Use 90s, 10m, 1h or 2d.", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


def since(moment: float | None, now: float) -> str:
    """Return how long ago a moment was, for a table."""
    return "-" if moment is None else age(now - moment)


def until(moment: float | None, now: float) -> str:
    """Return how far away a moment is, for a table."""
    if moment is None:
        return "-"
    return f"in {age(moment - now)}" if moment > now else "now"
