"""The originals, and ours beside them."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from distq.testing.embedded_valkey import EmbeddedValkey
from tests.go.oracle import MODULE
from tests.proofs.oracle.original import Original
from tests.proofs.oracle.ours import Ours
from tests.support.go_programs import require

MakeOurs = Callable[[], Ours]


@pytest.fixture(scope="session")
def original() -> Iterator[Original]:
    """Run the originals; skip the test without them, fail it in CI."""
    require(MODULE)
    with Original() as running:
        yield running


@pytest.fixture
def make_ours(request: pytest.FixtureRequest, redis_server: EmbeddedValkey | None) -> MakeOurs:
    """Make queues of ours, each of its own: on a server, or in memory."""
    connection = None if redis_server is None else request.getfixturevalue("connection")
    names = map("oracle-{}".format, itertools.count())
    return lambda: Ours(connection, next(names))


@pytest.fixture
def ours(make_ours: MakeOurs) -> Iterator[Ours]:
    """Make one queue of ours."""
    made = make_ours()
    yield made
    made.close()
