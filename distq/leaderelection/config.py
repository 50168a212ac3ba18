"""The settings of one LeaderElector; contradictions fail here, not during an election."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from distq.errors import ConfigError
from distq.leaderelection.lock import Lock
from distq.metrics import MetricsProvider

JITTER_FACTOR = 1.2
"""Followers look again after 1 to 2.2 retry periods (client-go JitterFactor)."""


@dataclass(frozen=True, kw_only=True)
class LeaderElectionConfig:
    """The lock, the durations and the callbacks of an election; times are seconds.

    Source: client-go tools/leaderelection LeaderElectionConfig.
    """

    lock: Lock
    """Where the leader's record is kept."""

    on_started_leading: Callable[[Event], None]
    """Called in a thread of its own at the start of a term, with an event that is set when the term ends.

    The term continues when it returns, and ends when it raises.
    """

    on_stopped_leading: Callable[[], None]
    """Called once at the end of each term, however it ends."""

    on_new_leader: Callable[[str], None] | None = None
    """Called from some thread with the identity of a leader not seen before; empty after a release.

    A MultiLock whose records name two gives ``leaderelection.k8s.io/unknown``.
    """

    lease_duration: float = 15.0
    """How long followers wait after the last renewal they saw, 1 or more; stored in the record."""

    renew_deadline: float = 10.0
    """How long the leader continues without a renewal."""

    retry_period: float = 2.0
    """How long all wait between tries; followers up to 2.2 times as long."""

    release_on_cancel: bool = True
    """Free the lease at once when ``run`` is to stop, so that no follower waits for its end."""

    name: str = ""
    """The election's name in metrics and in errors of ``check``; the lock's if empty."""

    metrics: MetricsProvider | None = None
    """Receives ``leader_election_master_status`` and ``leader_election_slowpath_total``."""

    def __post_init__(self) -> None:
        """Refuse settings that client-go's NewLeaderElector refuses, in its order, and bad numbers."""
        for name in "lease_duration", "renew_deadline", "retry_period":
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                raise ConfigError(f"bad {name} {seconds!r:.80}. Give seconds, as a number.")
        if not self.lease_duration > self.renew_deadline:
            raise self._bad("Make lease_duration longer than renew_deadline.")
        if not self.renew_deadline > self.retry_period * JITTER_FACTOR:
            raise self._bad(f"Make renew_deadline longer than retry_period times {JITTER_FACTOR:g}.")
        if not (self.retry_period > 0 and math.isfinite(self.lease_duration)):
            raise self._bad("Make all of them more than zero, and finite.")
        if self.lease_duration < 1:
            raise self._bad("Make lease_duration 1 second or more: Leases count whole seconds.")
        for callback in "on_started_leading", "on_stopped_leading":
            if not callable(getattr(self, callback)):
                raise ConfigError(f"bad leader election: {callback} is no function. Give one.")
        # a type checker finds the next mistakes, too, but not all programs have one
        if self.lock is None:
            raise ConfigError("bad leader election: no lock. Give one, e.g. a LeaseLock.")
        if not self.lock.identity:
            raise ConfigError("bad leader election: the lock's identity is empty. Give one, or none.")

    def _bad(self, remedy: str) -> ConfigError:
        return ConfigError(
            f"bad lease times: lease_duration {self.lease_duration:g} s, renew_deadline "
            f"{self.renew_deadline:g} s, retry_period {self.retry_period:g} s. {remedy}"
        )
