"""The checker is worth something: it finds each planted mistake, and nothing where there is none."""

from collections.abc import Iterator

import pytest

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.proofs.history.controls import CONTROLS, Control
from tests.proofs.history.loads import LOADS, Load
from tests.support.redis_servers import server_of


@pytest.fixture(scope="module")
def any_connection() -> Iterator[Connection]:
    """Give a connection to one server: what a mistake does there, it does everywhere."""
    with EmbeddedValkey(server=server_of("valkey9")) as server:
        connection = Connection(server.url)
        yield connection
        connection.close()


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.__name__)
def test_nothing_is_found_where_nothing_is_wrong(load: Load, any_connection: Connection) -> None:
    """Each load, as it is."""
    assert load(any_connection) == []


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name.replace(" ", "-"))
def test_a_mistake_is_found_by_its_invariant(control: Control, any_connection: Connection) -> None:
    """By the invariant that it breaks."""
    violations = control.violations(any_connection)
    assert control.is_caught(violations), violations
