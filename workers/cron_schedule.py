"""When a cron schedule of five fields runs, in UTC: ``*/15 8-17 * * mon-fri``."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

FIELDS = {
    "minute": range(60),
    "hour": range(24),
    "day of the month": range(1, 32),
    "month": range(1, 13),
    "day of the week": range(7),
}
NAMES = {
    "month": ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    "day of the week": ["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
}
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * sun",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
DAYS = 40 * 366
"""Within 40 years there is a 29 February on each day of the week."""


class Schedule:
    """Minute, hour, day of the month, month and day of the week (0 is Sunday), or a word such as @daily.

    A field is a list of numbers, ranges and steps, of months and days of the week also their names. One of
    the two days has to match; both have to, where there is a ``*`` in one. Raises ValueError for a
    wrong schedule, and for a day that never comes. Source: robfig/cron, which Kubernetes uses.
    """

    def __init__(self, text: str) -> None:
        fields = MACROS.get(text.strip().lower(), text).lower().split()
        if len(fields) != len(FIELDS):
            raise ValueError(f'bad schedule "{text}": not five fields, nor one of {", ".join(MACROS)}')
        minutes, hours, *days = (
            {value for part in field.split(",") for value in _values(part, name)}
            for field, name in zip(fields, FIELDS, strict=True)
        )
        self._times = [time(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)]
        self._days, self._months, self._weekdays = days
        self._both_must_match = any(mark in fields[2] + fields[4] for mark in "*?")
        if next(self._runs(date(2000, 1, 1), 1), None) is None:
            raise ValueError(f'bad schedule "{text}": there is no such day')

    def next_after(self, moment: datetime) -> datetime:
        """Return the first run after a moment."""
        return next(run for run in self._runs(moment.date(), 1) if run > moment)

    def last_until(self, moment: datetime) -> datetime:
        """Return the last run that is not after a moment."""
        return next(run for run in self._runs(moment.date(), -1) if run <= moment)

    def _runs(self, day: date, direction: Literal[1, -1]) -> Iterator[datetime]:
        """Yield the runs of a day and of those that follow, or go before, in this order."""
        for days in range(DAYS):
            there = day + timedelta(days=direction * days)
            if self._has(there):
                yield from (datetime.combine(there, at, UTC) for at in self._times[::direction])

    def _has(self, day: date) -> bool:
        matches = (day.day in self._days, day.isoweekday() % 7 in self._weekdays)
        return day.month in self._months and (all(matches) if self._both_must_match else any(matches))


def _values(part: str, field: str) -> Sequence[int]:
    """Return what one part of a field means: ``*``, ``5``, ``1-5``, each with or without ``/2``."""
    allowed = FIELDS[field]
    span, slash, step = part.partition("/")
    first, dash, last = span.partition("-")
    try:
        if span in {"*", "?"}:
            low, high = allowed[0], allowed[-1]
        else:
            low = _number(first, field)
            high = _number(last, field) if dash else allowed[-1] if slash else low
        values = range(low, high + 1, int(step) if slash else 1)
        if values and low in allowed and high in allowed and step.isdecimal() == bool(slash):
            return values
    except ValueError:
        pass
    raise ValueError(f'bad {field} "{part}": use numbers from {allowed[0]} to {allowed[-1]}')


def _number(text: str, field: str) -> int:
    names = NAMES.get(field, [])
    return names.index(text) if text in names else int(text)
