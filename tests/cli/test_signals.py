"""Signals that wait for the main thread, or end a command."""

import signal
import subprocess
import sys

import pytest

from distq.signals import next_signal, received_signals
from tests import ROOT
from tests.support.signalled import in_a_callback

LASTING = """
import os, signal, sys, time
from distq.__main__ import run_program
from distq.cli import program
from distq.cli.signals import leave_on_signals
from tests.support.signalled import in_a_callback

@program.main.command()
def last():
    leave_on_signals()
    exec(sys.stdin.read())
    time.sleep(30)

sys.argv[1:] = ["last"]
run_program()
"""
"""A program with one command more, which does something and lasts."""


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


def end_of(what: str) -> tuple[int, str]:
    """Let a lasting command do something; return its status and what it prints to stderr."""
    ended = subprocess.run(
        [sys.executable, "-c", LASTING], cwd=ROOT, input=what, capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(("number", "status"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129)])
def test_a_signal_that_arrives_in_a_callback_ends_a_command(number: str, status: int) -> None:
    """Python prints the exception of its handler there, and goes on."""
    assert end_of(f"in_a_callback(lambda: signal.raise_signal(signal.{number}))") == (status, "")


def test_a_ctrl_c_in_a_callback_is_for_the_handler_that_follows() -> None:
    """As where a Manager has begun meanwhile: it drains."""
    lost = """
def lose():
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, lambda *_: os._exit(7))
in_a_callback(lose)
"""
    assert end_of(lost) == (7, "")


def test_two_signals_at_once_end_a_command_quietly() -> None:
    """Python has noted both when it calls the handler of the first."""
    both = "{signal.SIGTERM, signal.SIGHUP}"
    at_once = f"""
signal.pthread_sigmask(signal.SIG_BLOCK, {both})
for number in {both}:
    os.kill(os.getpid(), number)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {both})
"""
    assert end_of(at_once) == (129, "")


def test_a_ctrl_c_at_the_end_of_a_command_is_no_error() -> None:
    """It may come when the command has ended, such as by an error."""
    late = """
def interrupt(*_):
    raise KeyboardInterrupt
program._fail = interrupt
raise program.click.ClickException("")
"""
    assert end_of(late) == (130, "")
