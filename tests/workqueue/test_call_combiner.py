"""Threads of one handle share turns, and none waits for long for the calls of others."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from distq.errors import RedisUnavailable
from distq.workqueue import call_combiner
from distq.workqueue.call_combiner import CallCombiner, PendingCall
from distq.workqueue.interface import Turn
from tests.support.eventually import eventually


class Answered:
    """A combiner whose turns are answered at once, or fail, and which has a loop that is about to go on."""

    def __init__(self) -> None:
        self.sizes = list[int]()
        """How many calls each turn answered."""
        self.error: Exception | None = None
        self.combiner = CallCombiner(threading.Lock(), self._answer)
        self.about_to_go_on = PendingCall([], 0, 1, turn=Turn([], [], 0.0))
        self.combiner._calls.append(self.about_to_go_on)

    def _answer(self, calls: Sequence[PendingCall]) -> None:
        self.sizes.append(len(calls))
        if self.error is not None:
            raise self.error
        for call in calls:
            call.turn = Turn([], [], 0.0)

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
