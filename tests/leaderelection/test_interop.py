"""client-go's elector and ours compete for the same Leases, on a real API server.

A leader of client-go's that was frozen goes on working when it thaws, beside its successor, until its renew
deadline: that is its own; what is checked is that ours stays away from every term that is live.
"""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.go.clientgo import MODULE
from tests.leaderelection.contest import TIMES, Contest, Entry
from tests.support.api_servers import ApiServer
from tests.support.go_programs import require
from tests.support.parts import IN_CI

CONTESTS, HANDOVERS = (5, 8) if IN_CI else (3, 2)
"""Eight are each manner from each side, and two of them again."""
AT_NIGHT = 20
SIX_DECIMALS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@pytest.mark.conformance("LE-08", "LE-09", "LE-10", "LK-01")
@pytest.mark.timeout(480)
@pytest.mark.parametrize("handovers", [HANDOVERS, pytest.param(AT_NIGHT, marks=pytest.mark.night)])
@pytest.mark.parametrize("api_server", ["real"], indirect=True)
def test_a_lease_goes_between_client_go_and_ours(
    api_server: ApiServer, namespace: str, handovers: int
) -> None:
    """Leaders release, are killed or frozen; records stay well-formed, and ours acts in its terms only."""
    require(MODULE)
    contests = [
        Contest(api_server.client(), api_server.kubeconfig, namespace, number) for number in range(CONTESTS)
    ]
    with ThreadPoolExecutor(CONTESTS) as pool:
        list(pool.map(lambda contest: contest.run(handovers), contests))
    for contest in contests:
        entries = contest.witness.entries
        assert sum(entry.holder != "" for _, entry in changes(entries)) >= handovers
        well_formed(entries)
        taken_when_free(entries)
        ours_acts_in_its_own_terms(contest)
        no_act_of_ours_while_client_go_leads(contest)


def changes(entries: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    """Return the last record of each holder with the first of the next."""
    return [(one, other) for one, other in pairwise(entries) if one.holder != other.holder]


def well_formed(entries: Sequence[Entry]) -> None:
    """Check each record, and each against the one before."""
    for entry in entries:
        assert SIX_DECIMALS.fullmatch(entry.spec["acquireTime"]), entry
        assert SIX_DECIMALS.fullmatch(entry.spec["renewTime"]), entry
        assert entry.spec["leaseDurationSeconds"] == (TIMES[0] if entry.holder else 1), entry
    assert entries[0].transitions == 0
    for before, after in pairwise(entries):
        began = after.holder not in {before.holder, ""}
        assert after.transitions == before.transitions + began, (before, after)
        if after.holder == before.holder:
            assert after.acquired == before.acquired, (before, after)
            assert after.expires > before.expires, (before, after)


def taken_when_free(entries: Sequence[Entry]) -> None:
    """Check that each term began after the one before was released or had run out."""
    for before, after in changes(entries):
        assert not before.holder or not after.holder or after.acquired > before.expires, (before, after)


def freed_by_others(contest: Contest) -> dict[str, float]:
    """Return whose lease another freed, and when: client-go does that to its successor when it thaws.

    Its release writes over any record if the one that it observed last was its own
    (tools/leaderelection release, as of 0.36). The successor learns of that at its next try.
    """
    cancelled = {one.identity: one.cancelled_at for one in contest.competitors}
    freed = {}
    for before, after in changes(contest.witness.entries):
        at = cancelled.get(before.holder)
        if not after.holder and (at is None or at / 1e9 + contest.clock_offset > after.acquired):
            freed[before.holder] = after.acquired
    return freed


def ours_acts_in_its_own_terms(contest: Contest) -> None:
    """Check that our acts are after our term began, and before any other term did."""
    freed = freed_by_others(contest)
    begins = {entry.holder: entry.acquired for _, entry in changes(contest.witness.entries) if entry.holder}
    for one in contest.competitors:
        if one.kind == "ours" and one.acts:
            first, last = (at / 1e9 + contest.clock_offset for at in (one.acts[0], one.acts[-1]))
            assert begins[one.identity] < first + 0.001
            later = [begin for begin in begins.values() if begin > begins[one.identity]]
            delay = TIMES[1] if one.identity in freed else 0.001
            assert last < min(later, default=last + 1) + delay, one.identity


def no_act_of_ours_while_client_go_leads(contest: Contest) -> None:
    """Check by the acts of both that they took turns, as long as the acts of client-go's are in its term."""
    expiry = {entry.holder: entry.expires for entry in contest.witness.entries}
    ours = [one for one in contest.competitors if one.kind == "ours" and one.acts]
    freed = freed_by_others(contest)
    theirs = [one for one in contest.competitors if one.kind == "client-go" and one.acts]
    for other in theirs:
        ends = (expiry[other.identity] - contest.clock_offset) * 1e9
        for act in other.acts:
            if act < min(ends, other.cancelled_at or ends):
                for one in ours:
                    if one.identity not in freed:
                        assert not one.acts[0] <= act <= one.acts[-1], (one.identity, other.identity)
