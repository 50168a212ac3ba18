"""What a process does whose plain reconciles hang: nothing can stop a thread."""

import threading
import time
from collections.abc import Iterator

import pytest

from distq.controller.controller import Controller
from distq.controller.process_health import ProcessHealth
from distq.controller.worker import dispatcher as dispatching
from distq.errors import ConfigError, NoSlotLeft
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request
from tests.controller.test_dispatcher import left_over
from tests.support.dispatchers import running
from tests.support.eventually import eventually

pytestmark = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)


class Hanging:
    """A reconcile function that hangs for the keys that begin so, until it is let go."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.go = threading.Event()

    def __call__(self, request: Request) -> None:
        """Note the key, and hang where it says so."""
        self.seen.append(request.key)
        if request.key.startswith("hang"):
            self.wait_for_ever()

    def wait_for_ever(self) -> None:
        """Hang, at a line that the traceback must name."""
        self.go.wait(120)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    """Give a function that hangs until the test is over."""
    hanging = Hanging()
    yield hanging
    hanging.go.set()


def test_reconciles_that_hang_in_all_slots_make_a_process_unready_and_then_unhealthy(
    connection: Connection, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a restart helps; but they are cancelled first, and may heed it."""
    queue = Queue("foos", connection)
    queue.add("hang1")
    controller = Controller(queue, hanging, concurrency=2, reconciliation_timeout=0.05)
    with running(controller) as dispatcher:
        health = ProcessHealth(connection=connection, dispatchers=[dispatcher], candidate=None, queues=[])
        eventually(lambda: hanging.seen == ["hang1"])
        time.sleep(0.1)
        assert (health.health(), health.readiness()) == ([], [])  # a slot is free
        queue.add("hang2")
        said = ["foos: reconciles past their timeout have all of its 2 slots"]
        eventually(lambda: health.readiness() == said)
        assert health.health() == []
        monkeypatch.setattr(dispatching, "UNHEEDED", 0.0)
        assert health.health() == said
        hanging.go.set()
        eventually(lambda: not health.health() and not health.readiness())


def test_an_item_that_is_held_too_long_fails_with_where_it_hangs(
    connection: Connection, hanging: Hanging, caplog: pytest.LogCaptureFixture
) -> None:
    """Its claim ends and it backs off; its slot stays taken, the others go on."""
    queue = Queue("foos", connection, max_retries=0)
    queue.add("hang")
    with (
        caplog.at_level("WARNING", logger="distq"),
        running(Controller(queue, hanging, concurrency=2, max_hold=0.2)) as dispatcher,
    ):
        eventually(lambda: left_over(connection, "foos").get("dead"))
        item = Inspector(connection).item("foos", "hang")
        queue.add("a", "b", "c")
        eventually(lambda: sorted(hanging.seen) == ["a", "b", "c", "hang"])
        assert dispatcher.problem() == ""
        hanging.go.set()
        eventually(lambda: "foos hang returned after" in caplog.text)
        queue.add("d")
        eventually(lambda: "d" in hanging.seen)
        eventually(lambda: dispatcher.in_progress == 0)
    assert item is not None
    assert "past max_hold" in (item.last_error or "")
    assert "in wait_for_ever" in (item.traceback or "")
    assert "executors.py" not in (item.traceback or "")
    assert "not settled" not in caplog.text


def test_a_process_without_a_free_slot_gives_up(connection: Connection, hanging: Hanging) -> None:
    """It settles what hangs, and then reports that it cannot go on."""
    queue = Queue("foos", connection, max_retries=0)
    queue.add("hang1", "hang2")
    failures: list[BaseException] = []
    with running(Controller(queue, hanging, concurrency=2, max_hold=0.2), on_failure=failures.append):
        eventually(lambda: failures)
    assert [type(failure) for failure in failures] == [NoSlotLeft]
    assert left_over(connection, "foos")["dead"] == 2


def test_a_controller_that_cannot_hold_so_long_is_refused(connection: Connection) -> None:
    """A bound that means nothing, or that cannot be kept, is no bound."""
    for wrong in (0, -1.0, float("nan"), 5):
        with pytest.raises(ConfigError, match="bad max_hold"):
            Controller("foos", print, max_hold=wrong, reconciliation_timeout=5)

    async def reconcile(request: Request) -> None:
        pass

    controller = Controller(Queue("foos", connection), reconcile, max_hold=5.0)
    with pytest.raises(ConfigError, match="async def"):
        dispatching.Dispatcher(controller)
