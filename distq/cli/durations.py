"""Durations as people write them on the command line."""

import re

import click

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Duration(click.ParamType):  # type: ignore[type-arg]  # newer versions of click have one
    """90s, 10m, 1h or 2d, as seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd]?)", str(value))
        if found is None:
            self.fail(f"{value!r} is no duration. Use 90s, 10m, 1h or 2d.", param, ctx)
        return float(found[1]) * _UNITS[found[2]]
