"""What lists do to items that wait for their back-off, or were given up; and how urgent they are."""

from collections.abc import Iterator

import pytest

from distq.errors import RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.redisio.checkpoints import MARK
from distq.workqueue.queue import Queue
from tests.controller.leading import ON_ALL_SERVERS, QUEUE, Scene
from tests.controller.test_stream import LOW, change, create, delete, put_at
from tests.support.eventually import eventually

pytestmark = ON_ALL_SERVERS

OBJECTS = [f"{state}-{fate}" for state in ("dead", "delayed") for fate in ("same", "changed", "gone")]


@pytest.fixture
def queue(scene: Scene) -> Iterator[Queue]:
    """Hand over objects of which some were then parked and others fail."""
    create(scene, *OBJECTS, "fine")
    queue = Queue(QUEUE, scene.connection)
    with scene.leading():
        pass
    for request in queue.turn([], 50).requests:
        if "dead" in request.key:
            queue.settle(request, TerminalError("never"))
        else:
            queue.settle(request, RetryAfter(1000) if "delayed" in request.key else None)
    yield queue
    queue.close()


def states(scene: Scene) -> dict[str, str]:
    """Return the state of each object's item that is in the queue."""
    items = Inspector(scene.connection).items(QUEUE)
    return {item.key.partition("/")[2]: item.state for item in items}


def test_a_resync_disturbs_no_back_off_and_revives_no_dead(scene: Scene, queue: Queue) -> None:
    """All objects are enqueued at low priority, except those whose items wait for later or are dead."""
    with scene.leading(epoch="2") as leader:
        put_at(scene, MARK, epoch="2")
        eventually(lambda: leader.stream.lists == 1 and leader.stream.synced)
    assert scene.pending() == {scene.key("fine"): LOW}
    assert states(scene) == {"fine": "ready", **{name: name.partition("-")[0] for name in OBJECTS}}
    assert [queue.num_requeues(scene.key(name)) for name in OBJECTS] == [1] * len(OBJECTS)


def test_a_list_serves_a_changed_object_though_it_waits_or_was_given_up(scene: Scene, queue: Queue) -> None:
    """An object that changed or vanished is news: now, at low priority, its failures kept."""
    for name in OBJECTS:
        if "changed" in name:
            change(scene, name)
        elif "gone" in name:
            delete(scene, name)
    scene.expire()
    with scene.leading(epoch="2") as leader:
        eventually(lambda: leader.stream.lists == 1 and leader.stream.synced)
    news = [name for name in OBJECTS if "same" not in name]
    assert scene.pending() == {scene.key(name): LOW for name in news}
    assert states(scene) == {
        **dict.fromkeys(news, "ready"),
        "dead-same": "dead",
        "delayed-same": "delayed",
    }
    assert [queue.num_requeues(scene.key(name)) for name in OBJECTS] == [1] * len(OBJECTS)


def test_an_event_overtakes_the_items_of_lists(scene: Scene) -> None:
    """Items of a first list or a resync wait behind new events; their failures keep the low priority."""
    create(scene, "a", "b")
    queue = Queue(QUEUE, scene.connection)
    with scene.leading():
        create(scene, "c")
        change(scene, "b")
        eventually(lambda: scene.pending() == {scene.key("a"): LOW, scene.key("b"): 0, scene.key("c"): 0})
        requests = {request.key: request for request in queue.turn([], 5).requests}
        assert list(requests) == [scene.key(name) for name in "cba"]
        for name in "ab":
            assert queue.settle(requests[scene.key(name)], RetryAfter(0))
        again = [queue.get(10), queue.get(10)]
        assert {request.key: request.priority for request in again} == {
            scene.key("a"): LOW,
            scene.key("b"): 0,
        }
    queue.close()
