"""What an item costs may fall, and grows by no more than 3 % unless ``counts.json`` is changed.

Seconds depend on the machine; these numbers do not. ``python -m tests.counted`` writes them anew.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.counted import measures
from tests.counted.measures import Measure

COUNTS = json.loads((Path(__file__).parent / "counts.json").read_text())
GROWS_BY = 1.03
FEW = 0.05
"""Of all items together so many more may come by the clock, as heartbeats and waits do."""


@pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True, scope="session")
@pytest.mark.parametrize("name", measures.ALL)
def test_the_counts_of_an_item_do_not_grow(connection: Connection, name: str) -> None:
    """Calls, commands, scripts, turns and bytes: each promise is paid once a batch."""
    measure: Measure = measures.ALL[name]
    if measure.is_of_python and sys.version_info[:2] != (3, 11):
        pytest.skip("calls are counted on Python 3.11: others make other calls of the same code")
    bar = GROWS_BY * COUNTS[name] + FEW
    found = math.inf
    for _ in range(3):  # more comes by the clock on a busy machine; what an item costs comes each time
        found = min(found, measure.count(connection))
        if found <= bar:
            break
    assert found <= bar, (
        f"{name}: {found:.3f}, was {COUNTS[name]}. Make it less, or write counts.json anew and say why."
    )


def test_a_call_more_an_item_is_noticed(monkeypatch: pytest.MonkeyPatch, connection: Connection) -> None:
    """One call of a function that does nothing, in the path of each item."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip("calls are counted on Python 3.11")
    name = "calls an item: loop"
    settle: Callable[..., bool] = Queue.settle

    def slower(queue: Queue, *arguments: object) -> bool:
        for _ in range(round(COUNTS[name] * 0.05)):
            id(queue)
        return settle(queue, *arguments)

    monkeypatch.setattr(Queue, "settle", slower)
    assert measures.ALL[name].count(connection) > GROWS_BY * COUNTS[name] + FEW
