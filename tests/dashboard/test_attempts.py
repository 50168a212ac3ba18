"""How often a password may be tried."""

from distq.dashboard.attempts import MOST, OF_ALL, OF_NAME, Attempts
from distq.testing.fake_clock import FakeClock

BURST, EVERY = OF_NAME


def test_wrong_passwords_get_slow() -> None:
    """A name has some tries from an address at once, then one each ten seconds."""
    clock = FakeClock()
    attempts = Attempts(clock)
    assert [attempts.take("10.0.0.1", "ada") for _ in range(BURST)] == [0.0] * BURST
    assert attempts.take("10.0.0.1", "ada") == EVERY
    clock.step(EVERY / 2)
    assert attempts.take("10.0.0.1", "ada") == EVERY / 2
    clock.step(EVERY / 2)
    assert attempts.take("10.0.0.1", "ada") == 0.0
    assert attempts.take("10.0.0.1", "ada") == EVERY


def test_a_login_does_not_wait_for_tries_of_other_names_or_addresses() -> None:
    """Behind one proxy all have one address; one name may be tried from everywhere."""
    attempts = Attempts(FakeClock())
    for _ in range(BURST + 1):
        attempts.take("10.0.0.1", "ada")
    assert attempts.take("10.0.0.1", "bob") == 0.0
    assert attempts.take("10.0.0.2", "ada") == 0.0


def test_all_guesses_together_get_slow() -> None:
    """A client with many addresses, or many names, has no more than so many tries for all of them."""
    clock = FakeClock()
    attempts = Attempts(clock)
    taken = [attempts.take(f"10.0.0.{number % 250}", f"name-{number}") for number in range(OF_ALL.burst + 1)]
    assert taken == [0.0] * OF_ALL.burst + [OF_ALL.every]
    clock.step(OF_ALL.every)
    assert [attempts.take("192.0.2.1", name) for name in ("ada", "bob")] == [0.0, OF_ALL.every]


def test_no_flood_slows_down_a_browser_that_is_known() -> None:
    """It has tries of its own, and exactly as many as a stranger has."""
    attempts = Attempts(FakeClock())
    for number in range(2 * OF_ALL.burst):
        attempts.take("10.0.0.1", "ada")
        attempts.take("10.0.0.1", f"name-{number}")
    assert [attempts.take("10.0.0.1", "ada", "hers") for _ in range(BURST + 1)] == [0.0] * BURST + [EVERY]
    assert attempts.take("10.0.0.1", "ada", "her-other-one") == 0.0


def test_a_right_password_costs_no_try() -> None:
    """Users who share an address may log in as often as they like."""
    attempts = Attempts(FakeClock())
    for browser in ("", "hers"):
        for _ in range(2 * OF_ALL.burst):
            assert attempts.take("10.0.0.1", "ada", browser) == 0.0
            attempts.succeeded("10.0.0.1", "ada", browser)


def test_logging_in_oneself_buys_no_guesses_at_others() -> None:
    """A user with a password guesses those of others no faster: wrong tries stay used up."""
    attempts = Attempts(FakeClock())
    for _ in range(BURST):
        assert attempts.take("10.0.0.1", "ada") == 0.0
    assert attempts.take("10.0.0.1", "eve") == 0.0
    attempts.succeeded("10.0.0.1", "eve")
    assert attempts.take("10.0.0.1", "ada") == EVERY


def test_one_network_is_one_address() -> None:
    """A user with a /64 of IPv6 has as many tries as a user with one address."""
    attempts = Attempts(FakeClock())
    for number in range(BURST):
        assert attempts.take(f"2001:db8::{number:x}", "ada") == 0.0
    assert attempts.take("2001:db8::ffff", "ada") == EVERY
    assert attempts.take("2001:db8:0:1::1", "ada") == 0.0


def test_tries_take_bounded_memory() -> None:
    """Beyond a bound, the address that was quiet for longest is forgotten, and not one that still tries."""
    clock = FakeClock()
    attempts = Attempts(clock)
    for number in range(MOST + 10):
        clock.step(2 * OF_ALL.every)
        attempts.take(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "ada")
        attempts.take("192.0.2.1", "ada")
    assert len(attempts._used) == MOST
    assert attempts.take("192.0.2.1", "ada") > 0


def test_a_flood_that_is_refused_buys_no_guesses() -> None:
    """Refused tries of other names do not let a name's tries be forgotten."""
    attempts = Attempts(FakeClock())
    for _ in range(BURST):
        attempts.take("10.0.0.1", "ada")
    for number in range(OF_ALL.burst + MOST):
        attempts.take("10.0.0.1", f"name-{number}")
    assert len(attempts._used) < MOST
    assert attempts.take("10.0.0.1", "ada") == EVERY
