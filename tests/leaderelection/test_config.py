"""Settings that cannot work are refused when they are given."""

import math
import threading
from typing import Any

import pytest

from distq.errors import ConfigError
from distq.leaderelection import LeaderElectionConfig
from distq.testing import FakeLock


def config(**settings: Any) -> LeaderElectionConfig:
    """Return a good configuration but for these settings."""
    good: dict[str, Any] = {
        "lock": FakeLock(),
        "on_started_leading": threading.Event.wait,
        "on_stopped_leading": lambda: None,
    }
    return LeaderElectionConfig(**(good | settings))


@pytest.mark.conformance("LE-02")
def test_the_defaults_are_client_go_s() -> None:
    """15, 10 and 2 seconds, released on cancel."""
    default = config()
    assert (default.lease_duration, default.renew_deadline, default.retry_period) == (15.0, 10.0, 2.0)
    assert default.release_on_cancel


@pytest.mark.conformance("LE-01", "LE-14")
@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"lease_duration": 10.0}, "Make lease_duration longer than renew_deadline."),
        ({"renew_deadline": 2.4}, "Make renew_deadline longer than retry_period times 1.2."),
        ({"retry_period": 0.0}, "Make all of them more than zero, and finite."),
        ({"retry_period": -1.0}, "Make all of them more than zero, and finite."),
        ({"lease_duration": math.inf}, "Make all of them more than zero, and finite."),
        ({"lease_duration": math.nan}, "Make lease_duration longer than renew_deadline."),
        ({"renew_deadline": math.nan}, "Make lease_duration longer than renew_deadline."),
        ({"lease_duration": "15"}, "bad lease_duration '15'. Give seconds, as a number."),
        ({"renew_deadline": None}, "bad renew_deadline None. Give seconds, as a number."),
        ({"retry_period": True}, "bad retry_period True. Give seconds, as a number."),
        ({"retry_period": math.nan}, "Make renew_deadline longer than retry_period times 1.2."),
        (
            {"lease_duration": 0.9, "renew_deadline": 0.5, "retry_period": 0.1},
            "Make lease_duration 1 second or more: Leases count whole seconds.",
        ),
        ({"on_started_leading": None}, "on_started_leading is no function. Give one."),
        ({"on_stopped_leading": None}, "on_stopped_leading is no function. Give one."),
        ({"lock": None}, "no lock. Give one, e.g. a LeaseLock."),
    ],
)
def test_settings_that_contradict_are_refused(settings: dict[str, Any], remedy: str) -> None:
    """Each gets one line that ends with the remedy."""
    with pytest.raises(ConfigError) as caught:
        config(**settings)
    assert str(caught.value).endswith(remedy)
    assert "\n" not in str(caught.value)


@pytest.mark.conformance("LE-01")
def test_an_empty_identity_is_refused() -> None:
    """A record without a holder means that no process leads."""
    with pytest.raises(ConfigError, match="identity is empty"):
        config(lock=FakeLock(identity=""))


@pytest.mark.conformance("LE-01")
def test_the_first_contradiction_is_reported() -> None:
    """In client-go's order, so that a user who fixes one after the other comes to an end."""
    wrong: dict[str, Any] = {
        "lease_duration": 0.5,
        "renew_deadline": 0.5,
        "retry_period": 0.5,
        "on_started_leading": None,
        "on_stopped_leading": None,
        "lock": None,
    }
    mended: list[dict[str, Any]] = [
        {"lease_duration": 0.7},
        {"retry_period": 0.1},
        {"lease_duration": 15.0},
        {"on_started_leading": threading.Event.wait},
        {"on_stopped_leading": lambda: None},
        {"lock": FakeLock(identity="")},
        {"lock": FakeLock()},
    ]
    messages = []
    for remedy in mended:
        with pytest.raises(ConfigError) as caught:
            config(**wrong)
        messages.append(str(caught.value))
        wrong |= remedy
    config(**wrong)
    parts = ["than renew_deadline", "times 1.2", "1 second or more", "on_started", "on_stopped", "no lock"]
    assert all(part in text for part, text in zip([*parts, "identity"], messages, strict=True)), messages
