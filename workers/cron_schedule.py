"""When a cron schedule runs: ``*/15 8-17 * * mon-fri`` in a time zone, ``@hourly``, or ``@every 1h30m``."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Literal, Protocol

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
DAYS = 9 * 366
"""Within nine years there is a 29 February."""


UNITS = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
"""Seconds, by Go's names of units."""

LONGEST = 2**63 / 1e9
"""Seconds, some 292 years: Go has no longer durations."""

_PART = r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)"


class Schedule(Protocol):
    """Says when something runs; moments are in any time zone, runs in UTC."""

    def next_after(self, moment: datetime) -> datetime:
        """Return the first run after a moment."""

    def last_until(self, moment: datetime) -> datetime:
        """Return the last run that is not after a moment."""


def parse(text: str, zone: tzinfo = UTC, *, start: datetime) -> Schedule:
    """Return what a schedule means in a time zone; ``start`` is when one with ``@every`` began.

    Raises ValueError for a wrong schedule. Source: robfig/cron ParseStandard, which Kubernetes uses.
    """
    if re.match(r"(CRON_)?TZ=", text):
        raise ValueError(f'bad schedule "{text}": it has a time zone. Set spec.timeZone instead')
    word, _, period = text.strip().partition(" ")
    if word.lower() == "@every":
        return PeriodicSchedule(period.strip(), start)
    return CronSchedule(text, zone)


class PeriodicSchedule:
    """A run in each period since a start: ``1h30m``, ``90s``; a Go duration of one second at least."""

    def __init__(self, period: str, start: datetime) -> None:
        parts = re.findall(_PART, period) if re.fullmatch(f"({_PART})+", period) else []
        seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
        if not 1 <= seconds < LONGEST:
            raise ValueError(
                f'bad period "{period}": use hours, minutes and seconds as in 1h30m10s, 1s at least'
            )
        self._period = timedelta(seconds=int(seconds))
        self._start = start.astimezone(UTC)

    def next_after(self, moment: datetime) -> datetime:
        """Return the first run after a moment."""
        return self.last_until(moment) + self._period

    def last_until(self, moment: datetime) -> datetime:
        """Return the last run that is not after a moment; the start itself where there is none."""
        return self._start + max(0, (moment - self._start) // self._period) * self._period


class CronSchedule:
    """Minute, hour, day of the month, month and day of the week (0 is Sunday), or a word such as @daily.

    A field is a list of numbers, ranges and steps, of months and days of the week also their names. One of
    the two days has to match; both have to, where one is ``*``, which ``*/2`` is not. A time that the clocks
    of the zone skip is left out, and one that they show twice is run twice. Raises ValueError for a wrong
    schedule, and for a day that never comes. Source: robfig/cron v3, which Kubernetes uses.
    """

    def __init__(self, text: str, zone: tzinfo = UTC) -> None:
        fields = MACROS.get(text.strip().lower(), text).lower().split()
        if len(fields) != len(FIELDS):
            words = ", ".join([*MACROS, "@every 1h30m"])
            raise ValueError(f'bad schedule "{text}": not five fields, nor one of {words}')
        minutes, hours, *days = (
            {value for part in field.split(",") for value in _values(part, name)}
            for field, name in zip(fields, FIELDS, strict=True)
        )
        self._zone = zone
        self._times = [time(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)]
        self._days, self._months, self._weekdays = days
        of_days = f"{fields[2]},{fields[4]}".split(",")
        self._both_must_match = any(re.fullmatch(r"[*?](/0*1)?", part) for part in of_days)
        if next(filter(self._has, _days_from(date(2000, 1, 1), 1)), None) is None:
            raise ValueError(f'bad schedule "{text}": there is no such day')

    def next_after(self, moment: datetime) -> datetime:
        """Return the first run after a moment."""
        return next(run for run in self._runs(moment, 1) if run > moment)

    def last_until(self, moment: datetime) -> datetime:
        """Return the last run that is not after a moment."""
        return next(run for run in self._runs(moment, -1) if run <= moment)

    def _runs(self, moment: datetime, direction: Literal[1, -1]) -> Iterator[datetime]:
        """Yield the runs of a moment's day and of those that follow, or go before, in this order."""
        for day in filter(self._has, _days_from(moment.astimezone(self._zone).date(), direction)):
            yield from self._runs_of(day, direction)

    def _runs_of(self, day: date, direction: Literal[1, -1]) -> Iterable[datetime]:
        """Return the runs of a day in UTC."""
        begin, end = (datetime.combine(each, time(), self._zone) for each in (day, day + timedelta(days=1)))
        offset = begin.utcoffset() or timedelta()
        if offset == end.utcoffset():
            return (datetime.combine(day, at, UTC) - offset for at in self._times[::direction])
        shown = {datetime.combine(day, at) for at in self._times}
        runs = {
            each.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for each in shown for fold in (0, 1)
        }
        there = [run for run in runs if run.astimezone(self._zone).replace(tzinfo=None) in shown]
        return sorted(there, reverse=direction < 0)

    def _has(self, day: date) -> bool:
        matches = (day.day in self._days, day.isoweekday() % 7 in self._weekdays)
        return day.month in self._months and (all(matches) if self._both_must_match else any(matches))


def _days_from(day: date, direction: Literal[1, -1]) -> Iterator[date]:
    return (day + timedelta(days=direction * days) for days in range(DAYS))


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
