"""``distq trace``: what was done to a queue, from one's own terminal."""

import json
import re
from collections.abc import Iterator

import pytest

from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine


@pytest.fixture
def queue(redis: Connection) -> Iterator[Queue]:
    """Make a queue that exists."""
    queue = Queue("foos", redis)
    queue.add("before")
    yield queue
    queue.close()


def test_the_timeline_of_an_item_is_shown(distq: CommandLine, queue: Queue) -> None:
    """Each has a line: added, claimed and its worker, failed and its error, due again."""
    done = distq("trace", "on", "foos", "--for", "10m")
    assert (done.stdout, done.stderr) == ("", "foos is traced for 10m0s more\n")
    queue.add("a", priority=1)
    queue.settle(queue.get(0), ValueError("no luck"))
    queue.add("b")
    lines = distq("trace", "foos", "a").stdout.splitlines()
    added, claimed, failed = (line.split("  ", 2)[2] for line in lines)
    worker = queue._session.worker_name
    assert added == "added at priority 1"
    assert re.match(rf"claimed, waited \S+ \w+  by {worker}, fence \d+$", claimed)
    assert re.match(r"failed after \S+ \w+: ValueError: no luck; back in \d(\.\d)? ms  by ", failed)
    assert "  b  added" in distq("trace", "foos").stdout


def test_an_item_of_which_nothing_was_noted_is_said_so(distq: CommandLine, queue: Queue) -> None:
    """Nothing printed might as well be a key that was mistyped."""
    distq("trace", "on", "foos")
    queue.add("a")
    done = distq("trace", "foos", "b")
    assert done.stdout == ""
    assert done.stderr.startswith("the trace has no call for b\nfoos is traced for ")
    assert json.loads(distq("trace", "foos", "a", "--json").stdout)["event"] == "added"
    assert distq("trace", "foos", "b", "--json").stdout == ""


def test_a_queue_is_traced_from_its_first_key_on(distq: CommandLine, redis: Connection) -> None:
    """Before it is there the refusal says how, and leaves nothing; once its worker runs it can be traced."""
    done = distq("trace", "on", "bars")
    assert done.returncode == 1
    assert "start its worker, trace it, and then start its informer" in done.stderr
    assert "nothing was ever added" in distq("trace", "bars").stderr
    assert redis.execute("DBSIZE") == 0
    queue = Queue("bars", redis)
    queue.turn([], 0)  # as a worker does, before anything is there
    assert distq("trace", "on", "bars").returncode == 0
    queue.add("first")
    assert "  first  added" in distq("trace", "bars").stdout
    queue.close()


def test_a_trace_is_switched_off(distq: CommandLine, queue: Queue) -> None:
    """Entries that were noted until then are still there."""
    distq("trace", "on", "foos", "--for", "1h", "--limit", "500")
    queue.add("a")
    done = distq("trace", "off", "foos")
    assert done.stderr == "foos is not traced; for ten minutes: distq trace on foos\n"
    queue.add("later")
    assert [line.split("  ")[1:3] for line in distq("trace", "foos").stdout.splitlines()] == [
        ["-", "trace on"],
        ["a", "added"],
        ["-", "trace off"],
    ]


def test_programs_read_json(distq: CommandLine, queue: Queue, redis: Connection) -> None:
    """When it ends, and one object for each event."""
    until = json.loads(distq("trace", "on", "foos", "--json").stdout)["traced_until"]
    assert until.endswith("Z")
    queue.add("a")
    _, added = map(json.loads, distq("trace", "foos", "--json").stdout.splitlines())
    assert added.keys() == {"at", "key", "kind", "event", "worker", "fence", "since"}
    assert (added["kind"], added["since"]) == ("added", None)
    assert (added["key"], added["event"], added["worker"], added["fence"]) == ("a", "added", None, None)
    assert json.loads(distq("trace", "off", "foos", "--json").stdout) == {"traced_until": None}
    assert Inspector(redis).traced_until("foos") is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["trace", "on", "fooz"], "fooz"),
        (["trace", "foos", "a", "b"], "extra argument"),
        (["trace", "off", "foos", "b"], "extra argument"),
        (["trace", "on", "foos", "--for", "soon"], "is no duration. Give seconds"),
        (["trace", "on", "foos", "--for", "25h"], "Use at most 86400 s"),
        (["trace", "on", "foos", "--limit", "0"], "--limit"),
    ],
)
def test_a_bad_trace_command_is_one_line(
    distq: CommandLine, queue: Queue, arguments: list[str], says: str
) -> None:
    """Another queue, too many words, a bad duration."""
    assert queue.name == "foos"
    done = distq(*arguments)
    assert done.returncode != 0
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_queue_named_on_can_be_shown(distq: CommandLine, redis: Connection) -> None:
    """The one word is then the queue."""
    Queue("on", redis).add("a")
    assert distq("trace", "on").stderr == "on is not traced; for ten minutes: distq trace on on\n"
