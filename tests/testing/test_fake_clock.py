"""Time that passes only when a test says so."""

import threading

from distq.testing import FakeClock


def test_a_step_moves_both_clocks() -> None:
    """As time does."""
    clock = FakeClock(now=1000.0)
    clock.step(5.0)
    assert (clock.now(), clock.monotonic()) == (1005.0, 5.0)


def test_a_wall_step_passes_no_time() -> None:
    """Not even backwards."""
    clock = FakeClock(now=1000.0)
    clock.step_wall(-3600.0)
    assert (clock.now(), clock.monotonic()) == (-2600.0, 0.0)


def test_a_wait_ends_when_enough_time_passed() -> None:
    """Not before; and says that the event was not set."""
    clock, ended = FakeClock(), threading.Event()
    answers: list[bool] = []

    def wait() -> None:
        answers.append(clock.wait(threading.Event(), 10.0))
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    while clock.waiters() == 0:
        ended.wait(0.001)
    clock.step(9.0)
    assert not ended.wait(0.05)
    assert clock.waiters() == 1
    clock.step(1.0)
    assert ended.wait(20)
    assert answers == [False]
    assert clock.waiters() == 0


def test_a_wait_ends_when_the_event_is_set() -> None:
    """Though no time passes."""
    clock, event = FakeClock(), threading.Event()
    threading.Timer(0.01, event.set).start()
    assert clock.wait(event, 10.0)
    assert clock.monotonic() == 0.0
