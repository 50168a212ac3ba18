"""A cron schedule says when it runs next, and when it ran last."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from workers.cron_schedule import DAYS, FIELDS, MACROS, CronSchedule, parse

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
CHANGES = {
    "Europe/Berlin": [datetime(2024, 3, 31, 1, tzinfo=UTC), datetime(2024, 10, 27, 1, tzinfo=UTC)],
    "America/New_York": [datetime(2024, 3, 10, 7, tzinfo=UTC), datetime(2024, 11, 3, 6, tzinfo=UTC)],
    "America/Santiago": [datetime(2024, 4, 7, 3, tzinfo=UTC), datetime(2024, 9, 8, 4, tzinfo=UTC)],
    "Australia/Lord_Howe": [datetime(2024, 4, 6, 15, tzinfo=UTC), datetime(2024, 10, 5, 15, 30, tzinfo=UTC)],
    "Pacific/Apia": [datetime(2011, 12, 30, 10, tzinfo=UTC)],
    "Asia/Kolkata": [datetime(2024, 3, 31, 1, tzinfo=UTC)],
}
"""Time zones, and moments when their clocks change: at midnight in one, by half an hour in another."""
zones = st.sampled_from([ZoneInfo(name) for name in CHANGES])
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
        ("0 0 */12 * sat", "2024-03-01 00:00"),  # the 1st, 13th and 25th, and each Saturday
        ("0 0 13 * */5", "2024-03-01 00:00"),  # the 13th, each Sunday and each Friday
        ("0 0 */1 * sat", "2024-03-02 00:00"),  # each Saturday: each day is one of the month
        ("0 0 13 * 5,?/1", "2024-03-13 00:00"),
        ("@hourly", "2024-02-28 11:00"),
        ("@Weekly", "2024-03-03 00:00"),
        ("@yearly", "2025-01-01 00:00"),
        ("0 0 29 2 */6", "2024-02-29 00:00"),
    ],
)
def test_the_next_run_comes_as_the_fields_say(text: str, run: str) -> None:
    """Each field narrows the minutes, from the first after the moment on."""
    assert f"{parse(text, start=MOMENT).next_after(MOMENT):%Y-%m-%d %H:%M}" == run


@given(schedules, zones, moments)
def test_between_two_runs_there_is_none(text: str, zone: ZoneInfo, moment: datetime) -> None:
    """The last run and the next enclose the moment, and follow each other both ways, in any time zone."""
    try:
        schedule = CronSchedule(text, zone)
    except ValueError:
        reject()  # of the 30th of February, say
    last, following = schedule.last_until(moment), schedule.next_after(moment)
    assert last <= moment < following
    assert schedule.next_after(last) == following
    assert schedule.last_until(following) == following
    assert (following - last).days < DAYS


@settings(max_examples=30)
@given(zones, st.data())
def test_a_run_is_when_the_clocks_of_its_zone_show_its_time(zone: ZoneInfo, data: st.DataObject) -> None:
    """Each minute of two days around a change of the clocks is looked at, and is a run or is not."""
    first = data.draw(st.sampled_from(CHANGES[zone.key])) - timedelta(days=1)
    hours = data.draw(st.sets(st.integers(0, 23), min_size=1, max_size=4))
    minutes = data.draw(st.sets(st.integers(0, 59), min_size=1, max_size=3))
    text = f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *"
    looked_at = [first + timedelta(minutes=minute) for minute in range(2 * 24 * 60)]
    wanted = [
        moment
        for moment in looked_at
        if (local := moment.astimezone(zone)).hour in hours and local.minute in minutes
    ]
    schedule, runs, run = CronSchedule(text, zone), [], first - timedelta(minutes=1)
    while (run := schedule.next_after(run)) <= looked_at[-1]:
        runs.append(run)
    assert runs == wanted


@pytest.mark.parametrize(
    ("text", "zone", "moment", "runs"),
    [
        ("30 2 * * *", "Europe/Berlin", "2024-03-30T12:00Z", ["2024-04-01T00:30Z"]),  # 2:30 is skipped
        ("30 2 * * *", "Europe/Berlin", "2024-10-26T12:00Z", ["2024-10-27T00:30Z", "2024-10-27T01:30Z"]),
        ("@daily", "Asia/Kolkata", "2024-02-28T12:00Z", ["2024-02-28T18:30Z", "2024-02-29T18:30Z"]),
        ("0 0 1 * *", "America/New_York", "2024-02-28T12:00Z", ["2024-03-01T05:00Z", "2024-04-01T04:00Z"]),
        ("@daily", "Pacific/Apia", "2011-12-29T00:00Z", ["2011-12-29T10:00Z", "2011-12-30T10:00Z"]),
        (
            "@every 36h",
            "Europe/Berlin",
            "2024-03-30T12:00Z",
            ["2024-03-30T22:30:30Z", "2024-04-01T10:30:30Z"],
        ),
    ],
)
def test_a_schedule_is_in_its_time_zone(text: str, zone: str, moment: str, runs: list[str]) -> None:
    """Its clocks may skip a time, which is then no run, or show one twice; a day may be missing."""
    schedule, last = parse(text, ZoneInfo(zone), start=MOMENT), datetime.fromisoformat(moment)
    for run in runs:
        last = schedule.next_after(last)
        assert last == datetime.fromisoformat(run)


@pytest.mark.parametrize(
    ("period", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("1.5h", 5400), ("2m0.5s", 120), ("1000ms", 1), ("0h1m", 60)],
)
def test_a_period_counts_from_the_start(period: str, seconds: int) -> None:
    """The first run is a period later, and each next one as long after; parts of seconds are left out."""
    schedule = parse(f"@every {period}", start=MOMENT)
    first, second = (MOMENT + timedelta(seconds=seconds * number) for number in (1, 2))
    assert schedule.next_after(MOMENT) == first
    assert schedule.last_until(MOMENT) == schedule.last_until(MOMENT - timedelta(days=1)) == MOMENT
    assert schedule.next_after(first) == second
    assert schedule.last_until(second - timedelta(microseconds=1)) == first


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not five fields"),
        ("* * * *", "not five fields"),
        ("* * * * * *", "not five fields"),
        ("@every", "bad period"),
        ("@every 5", "bad period"),
        ("@every -5m", "bad period"),
        ("@every 0.5s", "bad period"),
        ("@every 5m x", "bad period"),
        ("@every 5m2", "bad period"),
        ("@every 9999999h", "bad period"),
        (f"@every {'9' * 400}h", "bad period"),
        ("@fortnightly", "@hourly, @every 1h30m"),
        ("TZ=Europe/Berlin * * * * *", "Set spec.timeZone"),
        ("CRON_TZ=UTC * * * * *", "Set spec.timeZone"),
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
    """The error names the field, and its allowed values."""
    with pytest.raises(ValueError, match=complaint):
        parse(text, start=MOMENT)
