"""How often a password may be tried."""

from distq.dashboard.attempts import BURST, EVERY, MOST, Attempts
from distq.testing.fake_clock import FakeClock


def test_wrong_passwords_get_slow() -> None:
    """An address has some tries at once, then one each ten seconds; others do not wait for it."""
    clock = FakeClock()
    attempts = Attempts(clock)
    assert [attempts.take("10.0.0.1") for _ in range(BURST)] == [0.0] * BURST
    assert attempts.take("10.0.0.1") == EVERY
    assert attempts.take("10.0.0.2") == 0.0
    clock.step(EVERY / 2)
    assert attempts.take("10.0.0.1") == EVERY / 2
    clock.step(EVERY / 2)
    assert attempts.take("10.0.0.1") == 0.0
    assert attempts.take("10.0.0.1") == EVERY


def test_a_right_password_costs_no_try() -> None:
    """Whoever shares an address may log in as often as they like."""
    attempts = Attempts(FakeClock())
    for _ in range(3 * BURST):
        assert attempts.take("10.0.0.1") == 0.0
        attempts.succeeded("10.0.0.1")


def test_logging_in_oneself_buys_no_guesses_at_others() -> None:
    """Who has a password of their own guesses that of others no faster: wrong tries stay used up."""
    attempts = Attempts(FakeClock())
    for _ in range(BURST - 1):
        assert attempts.take("10.0.0.1") == 0.0
    assert attempts.take("10.0.0.1") == 0.0
    attempts.succeeded("10.0.0.1")
    assert [attempts.take("10.0.0.1") for _ in range(2)] == [0.0, EVERY]


def test_one_network_is_one_address() -> None:
    """Who has a /64 of IPv6 has no more tries than who has one address."""
    attempts = Attempts(FakeClock())
    for number in range(BURST):
        assert attempts.take(f"2001:db8::{number:x}") == 0.0
    assert attempts.take("2001:db8::ffff") == EVERY
    assert attempts.take("2001:db8:0:1::1") == 0.0


def test_addresses_take_bounded_memory() -> None:
    """Beyond so many, the address that was quiet for longest is forgotten, and not the one that tries on."""
    attempts = Attempts(FakeClock())
    for number in range(MOST + 10):
        attempts.take(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
        attempts.take("192.0.2.1")
    assert len(attempts._used) == MOST
    assert attempts.take("192.0.2.1") > 0
