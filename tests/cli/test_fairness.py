"""The command that makes a queue fair between namespaces, or ends that."""

import json

from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine
from tests.support.claims import finish_all


def test_a_user_makes_a_queue_fair_and_ends_that(distq: CommandLine, redis: Connection) -> None:
    """The command prints the order of pending and later items from now on."""
    queue = Queue("foos", redis)
    queue.add("heavy/1", "heavy/2")
    said = "the namespaces take turns, also with the items that wait\n"
    assert distq("fair", "foos", "namespace").stdout == said
    assert distq("fair", "foos", "namespace").stdout == "nothing changed\n"
    queue.add("light/1")
    assert json.loads(distq("fair", "foos", "none", "--json").stdout) == {
        "fair_by": None,
        "before": "namespace",
    }
    queue.add("other/1")
    assert finish_all(queue) == ["heavy/1", "light/1", "heavy/2", "other/1"]
    assert distq("fair", "foos", "none").stdout == "nothing changed\n"
