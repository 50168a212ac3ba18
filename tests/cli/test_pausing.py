"""Commands that stop and start the claims of a queue, beside real workers."""

import json
import signal
import threading

import pytest

from distq.errors import Empty
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine
from tests.support.eventually import eventually


@pytest.fixture
def queue(redis: Connection) -> Queue:
    """Give a queue that holds one of its two items."""
    queue = Queue("foos", redis)
    queue.add("held", "waits")
    return queue


@pytest.mark.conformance("RD-05")
def test_a_paused_queue_shows_and_goes_on_where_it_stopped(distq: CommandLine, queue: Queue) -> None:
    """Nothing is claimed between the two commands, and nothing is lost."""
    assert distq("pause", "foos").stdout == "paused\n"
    assert distq("pause", "foos").stdout == "paused\n"
    with pytest.raises(Empty):
        queue.get(timeout=0.05)
    table = distq("queues").stdout.splitlines()
    assert table[1].split()[-2] == "paused"
    shown = json.loads(distq("queues", "--json").stdout)
    assert shown["paused"] is True
    assert shown["paused_since"].endswith("Z")
    assert distq("resume", "foos").stdout == "resumed\n"
    assert distq("resume", "foos").stdout == "was not paused\n"
    assert "paused" not in distq("queues").stdout
    assert {queue.get(timeout=5).key for _ in range(2)} == {"held", "waits"}
    queue.close()


def test_pause_and_resume_answer_programs(distq: CommandLine, queue: Queue) -> None:
    """One object: the state of the queue now, and how much is still in progress."""
    request = queue.get()
    assert json.loads(distq("pause", "foos", "--json").stdout) == {"paused": True, "processing": 1}
    assert distq("pause", "foos").stdout == "paused; 1 in progress\n"
    assert queue.settle(request)
    assert json.loads(distq("pause", "foos", "--wait", "--json").stdout) == {"paused": True, "processing": 0}
    assert json.loads(distq("resume", "foos", "--json").stdout) == {"paused": False}
    queue.close()


def test_pause_can_wait_until_nothing_is_in_progress(distq: CommandLine, queue: Queue) -> None:
    """It prints on stderr how many are left, and ends when the last one is settled."""
    request = queue.get()
    process = distq.start("pause", "foos", "--wait")
    assert process.stderr is not None
    assert process.stderr.readline() == "paused; 1 in progress\n"
    assert queue.settle(request)
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (0, "paused\n")
    assert stderr.endswith("paused; 0 in progress\n")
    queue.close()


def test_ctrl_c_ends_the_wait_and_not_the_pause(distq: CommandLine, queue: Queue, redis: Connection) -> None:
    """A user who stops waiting reads that the queue stays paused, and how to end that."""
    queue.get()
    process = distq.start("pause", "foos", "--wait")
    assert process.stderr is not None
    assert process.stderr.readline() == "paused; 1 in progress\n"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stdout == ""
    assert "foos stays paused until: distq resume foos" in stderr
    assert "Traceback" not in stderr
    assert Inspector(redis).queues("foos")[0].paused
    queue.close()


def test_a_resume_ends_the_wait(distq: CommandLine, queue: Queue) -> None:
    """Another user decided otherwise: the awaited end need never come."""
    queue.get()
    process = distq.start("pause", "foos", "--wait")
    assert process.stderr is not None
    assert process.stderr.readline() == "paused; 1 in progress\n"
    assert distq("resume", "foos").returncode == 0
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert stderr.endswith("distq: foos was resumed meanwhile: 1 in progress.\n")
    queue.close()


def test_workers_obey(distq: CommandLine, redis: Connection) -> None:
    """A worker process claims nothing while the queue is paused, and goes on by itself afterwards."""
    distq.module(
        "foos",
        "from distq import Controller\ncontroller = Controller('foos', lambda request: None)\n",
    )
    queue, inspector = Queue("foos", redis), Inspector(redis)
    queue.add("first")
    process = distq.start("worker", "foos")
    eventually(lambda: inspector.workers("foos") and not inspector.queues("foos")[0].ready)
    assert distq("pause", "foos", "--wait").returncode == 0
    queue.add("a", "b")
    queue.add("c", after=0.01)
    assert distq("queues", "foos").stdout.splitlines()[1].split()[:4] == ["foos", "2", "1", "0"]
    assert distq("resume", "foos").returncode == 0
    eventually(lambda: inspector.items("foos") == [])
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0


FLEET = """
import time
from distq import Connection, Controller
from distq.config import Settings

connection = Connection(settings=Settings.from_env())

def reconcile(request):
    connection.execute("RPUSH", "at-a-time", connection.execute("INCR", "running"))
    time.sleep(0.02)
    connection.execute("DECR", "running")

controller = Controller("foos", reconcile, fleet_concurrency=50)
"""


def test_a_deployment_bounds_its_fleet(distq: CommandLine, redis: Connection) -> None:
    """Three processes of eight slots each run no more than three reconciles at a time, all together."""
    distq.module("foos", FLEET)
    queue, inspector = Queue("foos", redis), Inspector(redis)
    processes = [
        distq.start("worker", "foos", "--fleet-concurrency", "3"),
        distq.start("worker", "foos", DISTQ_FLEET_CONCURRENCY="3"),
        distq.start("worker", "foos", "--fleet-concurrency", "3", DISTQ_FLEET_CONCURRENCY="9"),
    ]
    try:
        eventually(lambda: len(inspector.workers("foos")) == 3)
        queue.add(*(f"key-{n}" for n in range(100)))
        eventually(lambda: inspector.items("foos") == [], timeout=60)
    finally:
        said = []
        for process in processes:
            process.send_signal(signal.SIGTERM)
            said.append(process.communicate(timeout=30)[1])
    seen = {int(text) for text in redis.execute("LRANGE", "at-a-time", 0, -1)}
    assert seen <= {1, 2, 3}
    assert 3 in seen
    assert all("8 at a time, 3 in all processes" in text for text in said)


def test_a_queue_that_is_not_there_exits_1(distq: CommandLine, redis: Connection) -> None:
    """A typo pauses nothing, and makes no queue."""
    for command in (["pause", "fooz"], ["resume", "fooz"], ["park", "fooz", "a"]):
        done = distq(*command)
        assert done.returncode == 1
        assert done.stderr.startswith('distq: no queue "fooz": nothing was ever added to it.')
    assert Inspector(redis).queues() == []


def test_pausing_and_resuming_take_effect_at_once(distq: CommandLine, queue: Queue) -> None:
    """A consumer that sleeps when the queue is resumed wakes by that."""
    assert distq("pause", "foos").returncode == 0
    claimed: list[str] = []
    thread = threading.Thread(target=lambda: claimed.append(queue.get().key))
    thread.start()
    assert distq("resume", "foos").returncode == 0
    thread.join(30)
    assert claimed == ["held"]
    queue.close()
