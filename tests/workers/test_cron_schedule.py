"""A cron schedule says when it runs next, and when it ran last."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from workers.cron_schedule import DAYS, FIELDS, MACROS, Schedule

MOMENT = datetime(2024, 2, 28, 10, 30, 30, tzinfo=UTC)
"""A Wednesday, before a leap day."""


def field(name: str) -> st.SearchStrategy[str]:
    """Return texts of this field: stars, numbers and ranges, with steps and in lists."""
    numbers = st.sampled_from(FIELDS[name])
    ranges = st.tuples(numbers, numbers).map(lambda ends: "-".join(map(str, sorted(ends))))
    spans = st.one_of(st.just("*"), numbers.map(str), ranges)
    steps = st.one_of(st.just(""), st.integers(1, 20).map(lambda step: f"/{step}"))
    return st.lists(st.tuples(spans, steps).map("".join), min_size=1, max_size=3).map(",".join)


schedules = st.one_of(st.sampled_from(list(MACROS)), st.tuples(*map(field, FIELDS)).map(" ".join))
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("* * * * *", "2024-02-28 10:31"),
        ("30 10 * * *", "2024-02-29 10:30"),
        ("*/20 * * * *", "2024-02-28 10:40"),
        ("5/20 * * * *", "2024-02-28 10:45"),
        ("5-25/20 * * * *", "2024-02-28 11:05"),
        ("0 9,17 * * *", "2024-02-28 17:00"),
        ("0 12 29 2 *", "2024-02-29 12:00"),
        ("0 12 30 * ?", "2024-03-30 12:00"),
        ("0 0 1 APR-jun *", "2024-04-01 00:00"),
        ("0 0 * * sun", "2024-03-03 00:00"),
        ("0 0 * * 0", "2024-03-03 00:00"),
        ("0 0 13 * fri", "2024-03-01 00:00"),  # the 13th, and each Friday
        ("0 0 */12 * fri", "2024-03-01 00:00"),  # the 1st, 13th and 25th, where they are Fridays
        ("0 0 13 * */5", "2024-09-13 00:00"),  # the 13th, where it is a Sunday or a Friday
        ("@hourly", "2024-02-28 11:00"),
        ("@Weekly", "2024-03-03 00:00"),
        ("@yearly", "2025-01-01 00:00"),
        ("0 0 29 2 */6", "2032-02-29 00:00"),  # a Saturday or a Sunday
    ],
)
def test_the_next_run_comes_as_the_fields_say(text: str, run: str) -> None:
    """Each field narrows the minutes, from the first after the moment on."""
    assert f"{Schedule(text).next_after(MOMENT):%Y-%m-%d %H:%M}" == run


@given(schedules, moments)
def test_between_two_runs_there_is_none(text: str, moment: datetime) -> None:
    """The last run and the next enclose the moment, and follow each other both ways."""
    try:
        schedule = Schedule(text)
    except ValueError:
        reject()  # of the 30th of February, say
    last, following = schedule.last_until(moment), schedule.next_after(moment)
    assert last <= moment < following
    assert schedule.next_after(last) == following
    assert schedule.last_until(following) == following
    assert (following - last).days < DAYS


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not five fields"),
        ("* * * *", "not five fields"),
        ("* * * * * *", "not five fields"),
        ("@every 5m", "not five fields"),
        ("TZ=Europe/Berlin * * * * *", "not five fields"),
        ("60 * * * *", 'bad minute "60": use numbers from 0 to 59'),
        ("* 5-24 * * *", 'bad hour "5-24"'),
        ("* * 0 * *", 'bad day of the month "0"'),
        ("* * * 13 *", 'bad month "13"'),
        ("* * * sun *", 'bad month "sun"'),
        ("* * * * 7", 'bad day of the week "7"'),
        ("30-10 * * * *", 'bad minute "30-10"'),
        ("*/0 * * * *", r'bad minute "\*/0"'),
        ("5/ * * * *", 'bad minute "5/"'),
        ("5- * * * *", 'bad minute "5-"'),
        ("1,,2 * * * *", 'bad minute ""'),
        ("1/2/3 * * * *", 'bad minute "1/2/3"'),
        ("-5 * * * *", 'bad minute "-5"'),
        ("five * * * *", 'bad minute "five"'),
        ("0 0 30 2 *", "no such day"),
    ],
)
def test_a_wrong_schedule_is_refused(text: str, complaint: str) -> None:
    """The error names the field, and what it may hold."""
    with pytest.raises(ValueError, match=complaint):
        Schedule(text)
