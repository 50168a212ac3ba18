"""The scores that ``docs/internals/layout.md`` shows are those that Redis has."""

from distq.redisio.scores import decode_due, decode_order
from tests.docs.operations import the_queue_of_the_layout
from tests.docs.pages import table
from tests.docs.reader import Reader


def test_the_orders_are_those_of_such_a_queue(reader: Reader) -> None:
    """Item, priority, time and score, in the order of the queue."""
    with the_queue_of_the_layout(reader) as queue:
        found = scores(queue.connection.execute("ZRANGE", "distq:{foos}:ready", 0, -1, "WITHSCORES"))
    assert shown("since, µs") == [
        [item, *map(str, decode_order(float(score))), score] for item, score in found.items()
    ]


def test_the_due_scores_are_those_of_such_a_queue(reader: Reader) -> None:
    """Item, priority, due time and score, in the order of the times."""
    with the_queue_of_the_layout(reader) as queue:
        found = scores(queue.connection.execute("ZRANGE", "distq:{foos}:delayed", 0, -1, "WITHSCORES"))
    assert shown("due, ms") == [
        [item, str(priority), str(due // 1000), score]
        for item, score in found.items()
        for priority, due in [decode_due(float(score))]
    ]


def shown(column: str) -> list[list[str]]:
    """Return the rows of the page's table with that column."""
    return [[cell.strip("`") for cell in row] for row in table("item", "priority", column)]


def scores(reply: list[bytes]) -> dict[str, str]:
    """Return the score of each item."""
    return {item.decode(): score.decode() for item, score in zip(reply[::2], reply[1::2], strict=True)}
