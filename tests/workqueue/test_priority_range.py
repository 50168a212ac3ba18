"""Priorities from -900 to 900, and no others, wherever one enters; beyond them orders are not exact."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pytest
from click.testing import CliRunner

from distq.cli.program import main
from distq.controller.watches import Every
from distq.errors import ConfigError, InvalidPriority
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.scores import decode_due, decode_order, decode_orders, orders_of
from distq.redisio.stream_store import StreamStore
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.interface import Result
from distq.workqueue.queue import Queue

Enter = Callable[[Connection, Any], object]


def _commit(connection: Connection, priority: Any) -> object:
    stream = StreamStore(connection, "foos", "pods")
    return stream.commit(
        Commit(epoch="1", after="", new="1", batch="b", keys=["a"], known={"a": "1"}, priority=priority)
    )


WAYS: dict[str, Enter] = {
    "add": lambda connection, priority: Queue("foos", connection).add("a", priority=priority),
    "add later": lambda connection, priority: Queue("foos", connection).add("a", priority=priority, after=5),
    "commit": _commit,
    "Result": lambda _, priority: Result(requeue_after=5, priority=priority),
    "Every": lambda _, priority: Every(5, lambda: ["a"], priority=priority),
}


@pytest.mark.parametrize("priority", [901, -901, 10**400, 0.5, 5.0, float("nan"), True, "1"])
@pytest.mark.parametrize("way", WAYS)
def test_a_priority_outside_the_range_is_refused(connection: Connection, way: str, priority: Any) -> None:
    """By a typed error that names the range, and nothing is written."""
    with pytest.raises(
        InvalidPriority, match=r"^bad priority .*\. Use a whole number from -900 to 900\.$"
    ) as caught:
        WAYS[way](connection, priority)
    assert isinstance(caught.value, ConfigError)
    assert isinstance(caught.value, ValueError)
    assert connection.execute("DBSIZE") == 0


@pytest.mark.parametrize("priority", [-900, -899, -1, 0, 1, 899, 900])
@pytest.mark.parametrize("way", ["add", "commit"])
def test_every_priority_of_the_range_is_kept_with_the_time(
    connection: Connection, way: str, priority: int
) -> None:
    """In one number, at both ends of the range."""
    connection.server_time = 1_795_000_000_000_001
    WAYS[way](connection, priority)
    score = connection.execute("ZSCORE", "distq:{foos}:ready", "a")
    assert decode_order(score) == (priority, 1_795_000_000_000_001)
    Queue("bars", connection).add("a", priority=priority, after=5)
    assert decode_due(connection.execute("ZSCORE", "distq:{bars}:delayed", "a")) == (
        priority,
        1_795_000_005_001_000,
    )


@pytest.mark.parametrize("odd", [[], [b"inf"], [b"-inf"], [b"1e+300"], [b"17"], [b"-0.5"]])
@pytest.mark.parametrize("priority", [-900, 0, 900])
def test_the_orders_of_many_items_are_read_as_one_is(priority: int, odd: list[bytes]) -> None:
    """Also if one of them is a number that no script wrote."""
    scores = [orders_of(priority)[0].encode(), orders_of(0)[0].encode(), *odd]
    priorities, since = decode_orders(scores)
    each = [decode_order(score) for score in scores]
    assert list(zip(priorities, since, strict=False)) == [(rank, time / 1e6) for rank, time in each]


class Level(IntEnum):
    """Priorities by name."""

    HIGH = 7


@pytest.mark.parametrize("way", ["add", "add later", "commit"])
def test_a_priority_may_be_of_an_enum(connection: Connection, way: str) -> None:
    """It counts as its number."""
    WAYS[way](connection, Level.HIGH)
    score, due = connection.pipeline(
        [("ZSCORE", f"distq:{{foos}}:{name}", "a") for name in ("ready", "delayed")]
    )
    assert (decode_order(score) if score else decode_due(due))[0] == 7


def test_a_result_may_have_a_priority_of_an_enum(connection: Connection) -> None:
    """The item comes back with its number, and the handle goes on."""
    queue = Queue("foos", connection)
    queue.add("a")
    assert queue.settle(queue.get(0), Result(requeue_after=5, priority=Level.HIGH))
    assert decode_due(connection.execute("ZSCORE", "distq:{foos}:delayed", "a"))[0] == 7


@pytest.mark.parametrize("priority", ["901", "-901", "0.5", "high"])
def test_the_command_line_refuses_it_too(
    redis_server: EmbeddedValkey, connection: Connection, priority: str
) -> None:
    """As a mistake of usage."""
    command = ["add", "foos", "a", "--priority", priority, "--redis-url", redis_server.url]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "--priority" in result.output
    assert connection.execute("DBSIZE") == 0
