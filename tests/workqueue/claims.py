"""Claims of a turn whose requests the test made."""

from dataclasses import dataclass, field

from distq.workqueue.cancellation import ClaimPeriod
from distq.workqueue.request import Request
from distq.workqueue.turns import Claims


@dataclass(slots=True)
class GivenClaims(Claims):
    """Claims that are read as these requests."""

    requests: list[Request] = field(default_factory=list)

    def read(self) -> tuple[list[Request], list[Request]]:
        """Return them; all are readable."""
        return self.requests, []


def claims_of(*requests: Request) -> Claims:
    """Return the claims of a turn that are read as these requests."""
    return GivenClaims(5000, [], None, None, ClaimPeriod(), len(requests), requests=list(requests))
