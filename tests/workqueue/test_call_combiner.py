"""Threads of one handle share turns, and none waits for long for the calls of others."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest

from distq.errors import RedisUnavailable
from distq.workqueue import call_combiner
from distq.workqueue.call_combiner import CallCombiner, PendingCall
from distq.workqueue.engine import Entry, OnClaims
from distq.workqueue.interface import Turn
from tests.support.eventually import eventually


class Answered:
    """A combiner whose turns are answered at once, or fail, and which has a loop that is about to go on."""

    def __init__(self) -> None:
        self.sizes = list[int]()
        """How many calls each turn answered."""
        self.error: Exception | None = None
        self.combiner = CallCombiner(threading.Lock(), self._make_turn)
        self.about_to_go_on = PendingCall([], 0, 1, turn=Turn([], [], 0.0))
        self.combiner._calls.append(self.about_to_go_on)

    def _make_turn(self, entries: Sequence[Entry], want: int, ahead: int, on_claims: OnClaims | None) -> Turn:
        del entries, want, on_claims
        self.sizes.append(ahead)  # each call asks for one item ahead
        if self.error is not None:
            raise self.error
        return Turn([], [], 0.0)

    def call(self) -> Turn:
        """Make a call, as a loop does that settles its item."""
        return self.combiner.call([], 0, 1)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Answered:
    """Give a combiner whose calls wait for the loop until it calls again."""
    monkeypatch.setattr(call_combiner, "_BACK_WITHIN", 20.0)
    return Answered()


def _goes_on(answered: Answered) -> None:
    """Let the loop go on with its answer, once another call waits for it."""
    eventually(
        lambda: len(answered.combiner._calls) == 2 and answered.combiner._calls[1].answered is not None
    )
    answered.combiner._calls.remove(answered.about_to_go_on)


def test_threads_that_were_answered_together_make_the_next_turn_together(answered: Answered) -> None:
    """The call of the first waits until the last one is back, which takes it along."""
    with ThreadPoolExecutor() as pool:
        first = pool.submit(answered.call)
        _goes_on(answered)
        answered.call()
        assert first.result(20).dispositions == []
    assert answered.sizes == [2]


def test_a_turn_that_fails_fails_for_the_calls_that_it_took_along(answered: Answered) -> None:
    """Each thread has the error, and none waits on."""
    answered.error = RedisUnavailable("away")
    with ThreadPoolExecutor() as pool:
        first = pool.submit(answered.call)
        _goes_on(answered)
        with pytest.raises(RedisUnavailable):
            answered.call()
        assert isinstance(first.exception(20), RedisUnavailable)


class LateLock:
    """A lock whose first acquirer is held up until a test lets it go on."""

    def __init__(self, is_about_to: threading.Event, go: threading.Event) -> None:
        self._lock, self._is_about_to, self._go = threading.Lock(), is_about_to, go
        self.release = self._lock.release

    def acquire(self, timeout: float = -1) -> bool:
        """Acquire it, later."""
        self._is_about_to.set()
        assert self._go.wait(20)
        return self._lock.acquire(timeout=timeout)


def test_a_turn_ends_well_though_a_call_is_about_to_wait_for_it(
    answered: Answered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread is not harmed by another one that has not begun to wait: its claims would be lost."""
    is_about_to, go = threading.Event(), threading.Event()
    locks = SimpleNamespace(Lock=partial(LateLock, is_about_to, go))
    monkeypatch.setattr(call_combiner, "threading", locks)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(answered.call)
        try:
            assert is_about_to.wait(20)
            answered.combiner._calls.remove(answered.about_to_go_on)
            assert answered.call().dispositions == []
        finally:
            go.set()
        assert first.result(20).dispositions == []
    assert answered.sizes == [2]


def test_a_thread_that_does_not_come_back_delays_no_call() -> None:
    """Half a millisecond later the call makes a turn of its own."""
    answered = Answered()
    answered.call()
    assert answered.sizes == [1]


def test_a_call_waits_for_no_thread_that_only_asked_for_an_item(answered: Answered) -> None:
    """Its answer says nothing about when it calls again."""
    answered.about_to_go_on.ahead = 0
    answered.call()
    assert answered.sizes == [1]
