"""``distq top`` in a terminal window: it shows, sorts, asks before it repairs, and leaves all as it was."""

import contextlib
import signal
import sys
import termios
from collections.abc import Callable, Iterator

import pytest

from distq.errors import TerminalError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine
from tests.proofs.first_contact.conftest import Window
from tests.support.eventually import eventually

LEFT = "\x1b[?7h\x1b[?25h\x1b[?1049l"


@pytest.fixture
def queues(redis: Connection) -> Iterator[Queue]:
    """Make a busy queue with dead items, and one that waits."""
    queue = Queue("foos", redis)
    queue.add("prod/web", "prod/api", "prod/db")
    for _ in range(2):
        queue.settle(queue.get(), TerminalError("object changed"))
    queue.get()
    Queue("bars", redis).add("a", "b")
    yield queue
    queue.close()


@pytest.fixture
def top(distq: CommandLine, queues: Queue) -> Iterator[Window]:
    """Open it in a window."""
    del queues  # which are there now
    command = [sys.executable, "-m", "distq", "top", "--interval", "0.3"]
    window = Window(command, distq.folder, distq.environment | {"TERM": "xterm"})
    window.wait_for("distq: queues")
    yield window
    with contextlib.suppress(ProcessLookupError):
        window.process.kill()
    window.wait()
    window.close()


def test_queues_are_shown_sorted_and_opened(top: Window) -> None:
    """By name, by each column, the other way round; then the items of a queue by state."""
    top.wait_for(r"bars +2 +0 +0[\s\S]*foos +0 +0 +1 +0 +2")
    top.type("s")
    top.wait_for("by READY")
    top.type("sssss")
    top.wait_for(r"by FAILING|by DEAD")
    top.type("so")
    top.wait_for("backwards")
    top.type("oj")
    top.type("k\r")
    top.wait_for(r"distq: \w+: \d processing")
    top.type("\t")
    top.wait_for(r"distq: \w+: \d dead")
    top.type("\x1b")
    top.wait_for("distq: queues")


def noted(inspector: Inspector) -> list[tuple[str, str | None]]:
    """Return what the audit has, the newest first."""
    return [(entry.text, entry.outcome) for entry in inspector.audit()]


def test_a_repair_is_done_after_yes_alone(top: Window, redis: Connection) -> None:
    """Any other key changes nothing."""
    inspector = Inspector(redis)
    top.type("j")
    top.type("r")
    top.wait_for(r"Requeue 2 dead items of foos\? \[y/N\]")
    top.type("n")
    top.wait_for("nothing changed")
    assert inspector.count("foos", state="dead") == 2
    top.type("r")
    top.wait_for(r"\[y/N\]")
    top.type("y")
    top.wait_for("requeue: 2 items of foos")
    assert inspector.count("foos", state="dead") == 0
    top.type("p")
    top.wait_for(r"Pause foos\?")
    top.type("y")
    top.wait_for("paused")
    eventually(lambda: inspector.queues("foos")[0].paused)
    top.type("p")
    top.wait_for(r"Resume foos\?")
    top.type("y")
    eventually(lambda: not inspector.queues("foos")[0].paused)
    eventually(lambda: noted(inspector)[0] == ("resume foos", "done"))
    assert noted(inspector)[1:] == [("pause foos", "done"), ("requeue dead items of foos", "2 of 2 changed")]


def test_one_item_is_repaired_on_the_page_of_its_queue(top: Window, redis: Connection) -> None:
    """It, and no other; an item that its worker holds is not deleted."""
    inspector = Inspector(redis)
    top.type("j\r")
    top.wait_for("distq: foos: 1 processing")
    top.type("d")
    top.wait_for(r"Delete prod/db of foos\?")
    top.type("y")
    top.wait_for("it has changed meanwhile, or is held")
    top.type("\t")
    top.wait_for("foos: 2 dead")
    top.type("d")
    key = top.wait_for(r"Delete prod/(web|api) of foos\?").split()[1]
    top.type("y")
    top.wait_for(f"delete {key}: done")
    assert inspector.item("foos", key) is None
    assert inspector.count("foos", state="dead") == 1
    assert noted(inspector) == [
        (f"delete {key} of foos", "1 of 1 changed"),
        ("delete prod/db of foos", "0 of 1 changed"),
    ]


def _quit(window: Window) -> None:
    window.type("q")


def _interrupt(window: Window) -> None:
    window.type("\x03")


def _terminate(window: Window) -> None:
    window.process.send_signal(signal.SIGTERM)


def _hang_up(window: Window) -> None:
    window.process.send_signal(signal.SIGHUP)


@pytest.mark.parametrize(
    ("end", "status"), [(_quit, 0), (_interrupt, 130), (_terminate, 143), (_hang_up, 129)]
)
def test_the_terminal_is_as_before_at_every_end(
    top: Window, end: Callable[[Window], None], status: int
) -> None:
    """The other screen is left, keys are echoed again, and the cursor is there."""
    taken = termios.tcgetattr(top._ours)
    assert not taken[3] & termios.ICANON
    end(top)
    assert top.wait() == status
    assert LEFT in top.raw
    left = termios.tcgetattr(top._ours)
    assert left[3] & termios.ICANON
    assert left[3] & termios.ECHO


def test_without_a_terminal_one_line_says_so(distq: CommandLine, redis: Connection) -> None:
    """In a pipe, for programs, and on a terminal that cannot be drawn on."""
    del redis
    for arguments in (["top"], ["top", "--json"]):
        done = distq(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines() == [
            'distq: "distq top" needs a terminal. Use "distq queues --watch", which prints lines.'
        ]


def test_a_queue_that_cannot_be_read_is_said(top: Window, redis: Connection) -> None:
    """In its row, and below the table while it is chosen; the others are shown as ever."""
    redis.execute("RENAME", "distq:{foos}:dead", "distq:{foos}:kept")
    redis.execute("SET", "distq:{foos}:dead", "x")
    top.wait_for(r"bars +2 +0 +0[\s\S]*foos +- +-")
    top.type("j")
    top.wait_for(r"\n.*WRONGTYPE distq:\{foos\}:dead")
    redis.execute("RENAME", "distq:{foos}:kept", "distq:{foos}:dead")
    top.wait_for(r"foos +0 +0 +1 +0 +2")


def test_an_outage_of_redis_is_shown_above_the_last_table(top: Window, redis: Connection) -> None:
    """It goes on asking, and shows the queues when Redis is back."""
    top.wait_for("foos")
    redis.execute("ACL", "SETUSER", "default", "-hget", "-hmget", "-hgetall")
    try:
        top.wait_for("may not run|no permission|NOPERM|not allowed")
    finally:
        redis.execute("ACL", "SETUSER", "default", "+@all")
    top.type("s")
    top.wait_for("by READY")
