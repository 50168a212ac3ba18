"""How long something takes, as callers give it: the only place that makes seconds of a timedelta."""

from datetime import timedelta
from typing import TypeAlias, TypeVar

Duration: TypeAlias = float | timedelta
"""Seconds, or a timedelta."""

Value = TypeVar("Value")


def in_seconds(duration: Value | timedelta) -> Value | float:
    """Return a timedelta in seconds, and anything else as it is: the caller checks it."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration
