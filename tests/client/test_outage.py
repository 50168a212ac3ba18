"""A lasting failure is reported at once, then at growing intervals, until the call works again."""

import logging
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from distq.errors import ApiError
from distq.outage import FIRST_INTERVAL, LONGEST_INTERVAL, Outage
from distq.testing.fake_clock import FakeClock

pytestmark = pytest.mark.first_contact(11)

REFUSED = ApiError("v1/Pod: no answer from here: connection refused. Start it.")
DENIED = ApiError("GET /api/v1/pods: 403 pods is forbidden. Grant it.", status=403)


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that the test steps."""
    return FakeClock()


@pytest.fixture
def outage(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> Iterator[Outage]:
    """Give an outage that logs to the test."""
    with caplog.at_level(logging.INFO, "tests.outage"):
        yield Outage("v1/Pod", logging.getLogger("tests.outage"), clock)


def test_an_outage_of_an_hour_is_neither_silent_nor_loud(
    outage: Outage, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The intervals double up to five minutes, at WARNING, for any number of tries."""
    reported, began = [], clock.monotonic()
    for _ in range(1800):
        before = len(caplog.records)
        outage.failed(REFUSED)
        reported += [clock.monotonic() - began] * (len(caplog.records) - before)
        clock.step(2.0)
    gaps = [later - sooner for sooner, later in pairwise(reported)]
    assert gaps[:5] == [FIRST_INTERVAL * 2**n for n in range(5)]
    assert set(gaps[5:]) == {LONGEST_INTERVAL}
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_a_report_names_the_error_its_start_and_the_retry(
    outage: Outage, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The cause and what would help are the error's own."""
    outage.failed(REFUSED)
    clock.step(150.0)
    outage.failed(REFUSED)
    first, second = caplog.messages
    assert first == f"v1/Pod: {REFUSED} Trying again."
    assert re.fullmatch(
        r"v1/Pod: .* Start it\. Trying again; it fails since \d\d:\d\d:\d\d, for 2m30s, 2 times\.", second
    )


def test_a_failure_of_another_kind_is_reported_at_once(
    outage: Outage, caplog: pytest.LogCaptureFixture
) -> None:
    """Once each, where two of them take turns."""
    for _ in range(5):
        outage.failed(REFUSED)
        outage.failed(DENIED)
    assert len(caplog.messages) == 2
    assert "403" in caplog.messages[1]


def test_its_end_is_reported_and_the_next_one_is_loud_again(
    outage: Outage, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of a long outage is a warning, too, for users whose level is WARNING."""
    outage.over()
    outage.failed(REFUSED)
    clock.step(40.0)
    outage.over()
    outage.over()
    outage.failed(REFUSED)
    assert caplog.messages[1:] == ["v1/Pod: works again after 40 s", f"v1/Pod: {REFUSED} Trying again."]
    assert caplog.records[1].levelno == logging.WARNING
