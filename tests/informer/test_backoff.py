"""Delays grow from 0.8 s to 30 s and start over after two quiet minutes."""

from distq.informer.backoff import Backoff
from distq.testing.fake_clock import FakeClock


def test_delays_double_with_jitter_up_to_the_cap() -> None:
    """The n-th delay is 0.8 s * 2^n, up to as much again, never above 30 s."""
    clock = FakeClock()
    backoff = Backoff(clock)
    for base in (0.8, 1.6, 3.2, 6.4, 12.8, 25.6):
        assert base <= backoff.delay() <= min(30, 2 * base)
    assert backoff.delay() == 30


def test_a_quiet_time_starts_it_over() -> None:
    """Two minutes without a failure are forgiven."""
    clock = FakeClock()
    backoff = Backoff(clock)
    for _ in range(8):
        backoff.delay()
    clock.step(151)
    assert backoff.delay() <= 1.6
