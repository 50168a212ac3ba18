"""Settings that cannot work are refused when they are given."""

import math
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from distq.errors import ConfigError
from distq.leaderelection import LeaderElectionConfig, LeaderElectionRecord


class NoLock:
    """A lock that is never used."""

    identity = "me"

    def describe(self) -> str:
        """Return a name."""
        return "nowhere"

    def get(self, *, timeout: float) -> LeaderElectionRecord | None:
        """Be called never."""
        raise NotImplementedError

    def create(self, record: LeaderElectionRecord, *, timeout: float) -> LeaderElectionRecord:
        """Be called never."""
        raise NotImplementedError

    update = create

    def watch(self, on_record: object) -> AbstractContextManager[None]:  # noqa: ARG002 - the protocol's
        """Watch nothing."""
        return nullcontext()

    def record_event(self, message: str) -> None:
        """Tell nobody."""


def config(**settings: Any) -> LeaderElectionConfig:
    """Return a good configuration but for these settings."""
    good: dict[str, Any] = {
        "lock": NoLock(),
        "on_started_leading": threading.Event.wait,
        "on_stopped_leading": lambda: None,
    }
    return LeaderElectionConfig(**(good | settings))


def test_the_defaults_are_client_go_s() -> None:
    """15, 10 and 2 seconds, released on cancel."""
    default = config()
    assert (default.lease_duration, default.renew_deadline, default.retry_period) == (15.0, 10.0, 2.0)
    assert default.release_on_cancel


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
        ({"retry_period": math.nan}, "Make renew_deadline longer than retry_period times 1.2."),
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


def test_an_empty_identity_is_refused() -> None:
    """A record without a holder means that nobody leads."""
    lock = NoLock()
    lock.identity = ""
    with pytest.raises(ConfigError, match="identity is empty"):
        config(lock=lock)
