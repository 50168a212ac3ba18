"""What a session holds stays true where claims end in one thread while another records a turn."""

import pytest

from distq.workqueue.claim_ledger import ClaimLedger
from distq.workqueue.engine import TurnSettings, UnreadableItem
from distq.workqueue.interface import ENDED, Disposition, Release, Request, Settlement, Success
from distq.workqueue.turns import TurnReply
from distq.workqueue.worker import Worker


def _reply(*requests: Request, settled: int = 0) -> TurnReply:
    return TurnReply(5000, list(requests), [ENDED] * settled, 0.0, alone=False)


class CutOff(Worker):
    """Counts a turn, while the deadline's thread finds all claims over."""

    def __init__(self, ledger: ClaimLedger) -> None:
        super().__init__(TurnSettings())
        self._ledger = ledger

    def count(self, *_: object) -> None:
        """Cancel all, in the midst of what records the turn."""
        self._ledger.cancel_all("no heartbeat reached Redis in time")


@pytest.fixture
def ledger() -> ClaimLedger:
    """Give one that holds nothing."""
    return ClaimLedger("foos", on_cancel=lambda _: None, on_drained=lambda: None)


def test_what_a_turn_brought_is_held_though_all_was_cancelled_meanwhile(ledger: ClaimLedger) -> None:
    """Else its handler would run, and nothing that it did could be settled."""
    before, claimed = Request("a", fence=1), Request("b", fence=2)
    ledger.record([], _reply(before), Worker(TurnSettings()), asked=True)
    ledger.record([], _reply(claimed), CutOff(ledger), asked=True)
    assert before.cancelled.is_set()
    assert (ledger.held, ledger.take(5)) == ({"b": claimed}, [claimed])


def test_claims_may_end_while_others_are_cancelled(ledger: ClaimLedger) -> None:
    """Whoever hears of the first makes time for a turn that was under way."""
    requests = [Request("a", fence=1), Request("b", fence=1)]
    ledger.record([], _reply(*requests), Worker(TurnSettings()), asked=True)
    held = ledger.held

    def end(request: Request) -> None:
        held.pop(request.key, None)

    ledger._on_cancel = end
    assert ledger.cancel_all("no heartbeat reached Redis in time") == requests


def test_what_was_put_back_is_forgotten(ledger: ClaimLedger) -> None:
    """A loop that claims ahead and gives back leaves nothing here for each time."""
    worker = Worker(TurnSettings())
    for number in range(3):
        ledger.record([], _reply(Request(f"a{number}", fence=number)), worker, asked=True)
        spare = ledger.take_spare()
        released = [Settlement(Request(each.key, fence=each.fence), Release()) for each in spare]
        ledger.record(released, _reply(settled=1), worker, asked=False)
        ledger.take_results(released)
    assert ledger.lose() == {}


def test_an_unreadable_item_leaves_no_answer(ledger: ClaimLedger) -> None:
    """No call fetches it, so a queue full of such items would fill the ledger."""
    odd = [UnreadableItem(Request("\n", fence=1))]
    reply = TurnReply(5000, [], [Disposition("dead")], 0.0, alone=False)
    ledger.record(odd, reply, Worker(TurnSettings()), asked=False)
    assert not ledger._answered
    assert not ledger.all_results()


def test_a_settlement_that_was_recorded_has_its_answer_once(ledger: ClaimLedger) -> None:
    """Whether its call fetches it, or a later one with an equal list."""
    request = Request("a", fence=1)
    worker, entries = Worker(TurnSettings()), [Settlement(request, Success())]
    ledger.record([], _reply(request), worker, asked=True)
    ledger.record(entries, _reply(settled=1), worker, asked=False)
    assert [each.kind for each in ledger.take_results(list(entries))] == ["ended"]
    assert [each.kind for each in ledger.take_results(entries)] == ["refused"]
