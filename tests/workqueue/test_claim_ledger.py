"""What a session holds stays true where claims end in one thread while another records a turn."""

from collections.abc import Iterator

import pytest

from distq.workqueue.claim_ledger import FEW, ClaimLedger
from distq.workqueue.interface import ENDED, Release, Settlement, Success
from distq.workqueue.request import Request
from distq.workqueue.turns import TurnReply
from tests.workqueue.claims import GivenClaims, claims_of


def _reply(*requests: Request, settled: int = 0) -> TurnReply:
    return TurnReply(5000, claims_of(*requests), [ENDED] * settled, 0.0, alone=False)


class CutOff(list[Settlement]):
    """The entries of a turn; while they are read, the deadline's thread finds all claims over."""

    def __init__(self, ledger: ClaimLedger) -> None:
        self._ledger = ledger

    def __iter__(self) -> Iterator[Settlement]:
        """Cancel all, in the midst of what records the turn."""
        self._ledger.cancel_all("no heartbeat reached Redis in time")
        return super().__iter__()


class Filling(dict[str, Request]):
    """Spare claims; once the first is there, the deadline's thread finds all claims over."""

    def __init__(self, ledger: ClaimLedger) -> None:
        super().__init__()
        self._ledger = ledger
        self._has_begun = False

    def __setitem__(self, key: str, request: Request) -> None:
        """Cancel all, in the midst of what fills it."""
        super().__setitem__(key, request)
        if not self._has_begun:
            self._has_begun = True
            self._ledger.cancel_all("no heartbeat reached Redis in time")


class Wanted(dict[str, Request]):
    """Spare claims; as soon as somebody has looked for one, another thread takes it."""

    def __init__(self, *spare: Request) -> None:
        super().__init__({request.key: request for request in spare})
        self.taken: list[Request] = []

    def __contains__(self, key: object) -> bool:
        """Say whether it was there."""
        was_there = super().__contains__(key)
        if was_there:
            self.taken.append(self.pop(str(key)))
        return was_there


@pytest.fixture
def ledger() -> ClaimLedger:
    """Give one that holds nothing."""
    return ClaimLedger("foos", on_cancel=lambda _: None, interrupt=lambda: None)


def test_the_claims_of_a_turn_are_held_though_all_was_cancelled_meanwhile(ledger: ClaimLedger) -> None:
    """Else its handler would run, and nothing that it did could be settled."""
    before, claimed = Request("a", fence=1), Request("b", fence=2)
    ledger.record([], _reply(before), asked=True)
    ledger.record(CutOff(ledger), _reply(claimed), asked=True)
    assert before.cancelled.is_set()
    assert (ledger.held, ledger.take(5)) == ({"b": claimed}, [claimed])


def test_a_spare_claim_that_a_turn_replaces_is_cancelled_where_another_thread_just_took_it(
    ledger: ClaimLedger,
) -> None:
    """Else the handle would process the item twice at a time, as the server has lost the first claim."""
    before, claimed = Request("a", fence=1), Request("a", fence=2)
    ledger.record([], _reply(before), asked=True)
    ledger.spare = wanted = Wanted(before)
    ledger.record([], _reply(claimed), asked=True)
    assert all(request.cancelled.is_set() for request in wanted.taken)
    assert ledger.take(5) == [claimed]


def test_claims_may_end_while_others_are_cancelled(ledger: ClaimLedger) -> None:
    """The callback of the first cancelled claim lets a turn finish that was under way."""
    requests = [Request("a", fence=1), Request("b", fence=1)]
    ledger.record([], _reply(*requests), asked=True)
    held = ledger.held

    def end(request: Request) -> None:
        held.pop(request.key, None)

    ledger._on_cancel = end
    assert ledger.cancel_all("no heartbeat reached Redis in time") == requests


def test_items_that_were_put_back_are_forgotten(ledger: ClaimLedger) -> None:
    """A loop that claims ahead and gives back leaves nothing here for each time."""
    for number in range(3):
        ledger.record([], _reply(Request(f"a{number}", fence=number)), asked=True)
        released = [Settlement(spare, Release()) for spare in ledger.take_spare()]
        ledger.record(released, _reply(settled=1), asked=False)
    assert ledger.lose() == {}


@pytest.fixture
def unread(ledger: ClaimLedger) -> dict[str, int]:
    """Let the ledger have claims that no caller fetched; return their fences."""
    requests = [Request(f"a{number}", fence=5) for number in range(FEW + 1)]
    ledger.record([], _reply(*requests), asked=True)
    assert ledger.unread == len(requests)
    return {request.key: request.fence for request in requests}


def test_unread_claims_are_lost_with_their_session(ledger: ClaimLedger, unread: dict[str, int]) -> None:
    """Else the crashes that Redis counted for their items would stay."""
    assert ledger.lose() == unread


def test_unread_claims_that_the_server_has_stay(ledger: ClaimLedger, unread: dict[str, int]) -> None:
    """A comparison reads them first."""
    assert ledger.compare(unread) == []
    assert {request.key: request.fence for request in ledger.take(len(unread))} == unread


def test_unread_claims_that_end_while_they_are_read_are_held_no_longer(
    ledger: ClaimLedger, unread: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else no handler could settle them, and no heartbeat would give them back."""
    read = GivenClaims.read

    def read_late(claims: GivenClaims) -> tuple[list[Request], list[Request]]:
        assert len(ledger) == len(unread)  # the deadline's thread does nothing where none is held
        ledger.cancel_all("no heartbeat reached Redis in time")
        return read(claims)

    monkeypatch.setattr(GivenClaims, "read", read_late)
    ledger.read()
    assert (ledger.take(len(unread)), len(ledger)) == ([], 0)
    assert ledger.lose() == unread


def test_unread_claims_that_end_while_they_are_noted_are_held_no_longer(
    ledger: ClaimLedger, unread: dict[str, int]
) -> None:
    """The thread that ends them has only those that were noted."""
    ledger.spare = Filling(ledger)
    ledger.read()
    assert (ledger.take(len(unread)), len(ledger)) == ([], 0)
    assert ledger.lose() == unread


def test_a_claim_read_in_the_midst_of_a_turn_outlives_the_one_that_the_turn_settles(
    ledger: ClaimLedger,
) -> None:
    """The server had lost the first, and gave the item to its session again: else it could run twice."""
    lost = Request("a0", fence=1)
    again = [Request(f"a{number}", fence=5) for number in range(FEW + 1)]
    ledger.record([], _reply(lost), asked=True)
    ledger.take(1)
    ledger.record([], _reply(*again), asked=True)
    ledger.read()
    ledger.record([Settlement(lost, Success())], _reply(settled=1), asked=False)
    assert ledger.held["a0"] is again[0]
