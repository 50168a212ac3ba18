"""Signals that wait for the main thread."""

import signal

import pytest

from distq.signals import next_signal, received_signals
from tests.support.signalled import in_a_callback


def test_a_signal_that_arrives_in_a_callback_is_not_lost() -> None:
    """The main thread takes it when it looks."""
    with received_signals() as signals:
        in_a_callback(lambda: signal.raise_signal(signal.SIGINT))
        assert next_signal(signals) == signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_handled_as_before_afterwards(number: signal.Signals) -> None:
    """With what a command had installed for its end, or Python's own."""
    before = signal.getsignal(number)
    with received_signals() as signals:
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert [next_signal(signals), next_signal(signals)] == [number, number]
    assert signal.getsignal(number) is before


def test_what_nohup_ignores_stays_ignored() -> None:
    """The end of its terminal ends no command that shall outlive it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with received_signals() as signals:
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
            assert next_signal(signals) == signal.SIGTERM
    finally:
        signal.signal(signal.SIGHUP, before)
