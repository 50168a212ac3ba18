"""Durations that callers and users give: only this module converts them to seconds."""

import math
import re
from datetime import timedelta
from typing import TypeAlias, TypeVar

Duration: TypeAlias = float | timedelta
"""Seconds, or a timedelta."""

Value = TypeVar("Value")

_WITH_UNIT = re.compile(r"([0-9]{1,9}(?:\.[0-9]+)?)([smhd])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def in_seconds(duration: Value | timedelta) -> Value | float:
    """Return a timedelta in seconds, and anything else as it is: the caller checks it."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def parse_seconds(text: str) -> float:
    """Read ``90``, ``90s``, ``10m``, ``1h`` or ``2d``, as in options and settings; raise ValueError."""
    found = _WITH_UNIT.fullmatch(text)
    seconds = float(found[1]) * _UNITS[found[2]] if found else float(text)
    if math.isnan(seconds):
        raise ValueError(text)
    return seconds
