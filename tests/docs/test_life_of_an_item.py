"""The tables of ``docs/internals/life-of-an-item.md`` are what a queue in Redis does, cell by cell."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from distq import Inspector, Queue, Request, Result, TerminalError
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from distq.workqueue import ItemExponentialFailureRateLimiter

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "life-of-an-item.md"
KEY = "prod/web"
LONG = 1000.0
"""Seconds of every delay here; far beyond a claim duration."""


class Life:
    """One item in one queue, at a time of the server that moves only by hand; it starts in a state.

    Everywhere but from nothing it has two failures, so that a table can say what becomes of them.
    """

    def __init__(self, connection: Connection, *, max_retries: int | None = None) -> None:
        connection.execute("FLUSHALL")
        connection.server_time = 1_790_000_000_000_000
        self.connection = connection
        self.inspector = Inspector(connection)
        self.max_retries = max_retries
        self.handles: list[Queue] = []
        self.queue = self.handle()
        self.request = Request(KEY)
        self.queue.forget(KEY)  # a queue exists once it was used

    def handle(self) -> Queue:
        """Return another handle of the queue, as another process has it."""
        limiter = ItemExponentialFailureRateLimiter(LONG, LONG)
        queue = Queue("foos", self.connection, rate_limiter=limiter, max_retries=self.max_retries)
        self.handles.append(queue)
        return queue

    def close(self) -> None:
        """Close all handles."""
        for queue in self.handles:
            queue.close()

    # States

    def begin(self, state: str) -> None:
        """Bring the item into a state."""
        if state == "nothing":
            return
        self.queue.add_rate_limited(KEY)
        self.queue.add_rate_limited(KEY)
        if state == "delayed":
            return
        self.queue.add(KEY)
        if state == "dead":
            self.inspector.park("foos", KEY)
        if state in HELD:
            self.claim(state)
        assert self.state() == state

    def claim(self, state: str) -> None:
        """Claim it in a session of its own, and add it again where the state says so."""
        self.queue = self.handle()
        self.request = self.queue.get(0)
        if state == "dirty":
            self.queue.add(KEY)
        if state == "returning":
            self.queue.add_after(KEY, LONG)

    def state(self) -> str:
        """Return the word of the table for where the item is."""
        item = self.inspector.item("foos", KEY)
        if item is None:
            return "nothing"
        if item.state == "processing":
            return "dirty" if item.dirty else "returning" if item.due else "processing"
        return item.state

    def failures(self) -> int:
        """Return the item's failure count."""
        return self.queue.num_requeues(KEY)

    # What happens

    def later(self, seconds: float) -> None:
        """Move the server's time."""
        self.connection.server_time += int(seconds * 1e6)

    def turn_of_another(self) -> None:
        """Let another handle ask for an item."""
        self.handle().turn([], 1)

    def turn_when_due(self) -> None:
        """Let the delay end, and another handle ask for an item."""
        self.later(2 * LONG)
        self.turn_of_another()

    def list_again(self) -> None:
        """Commit the key as a list or resync does whose object did not change."""
        store = StreamStore(self.connection, "foos", "foo-1")
        store.commit(Commit(epoch="1", after="", new="2", batch="b", keys=[KEY], keep_pending=True))

    def lapse(self) -> None:
        """Let the claim clock run until the holder's session ends, while another process lives."""
        keeper = self.handle()
        for _ in range(3):
            self.later(10)
            keeper.turn([], 0)

    def lapse_thrice(self) -> None:
        """Let three holders die, one after another; the state is that of the third one's item."""
        state = self.state()
        for _ in range(2):
            self.lapse()
            self.claim(state)
        self.lapse()

    def settle(self, outcome: Result | BaseException | None) -> None:
        """End the claim."""
        assert self.queue.settle(self.request, outcome)


STATES = ("nothing", "ready", "delayed", "processing", "dirty", "returning", "dead")
HELD = ("processing", "dirty", "returning")
FREE = tuple(state for state in STATES if state not in HELD)

OPERATIONS: dict[str, Callable[[Life], object]] = {
    "`add`": lambda life: life.queue.add(KEY),
    "`add_after`": lambda life: life.queue.add_after(KEY, LONG),
    "`add_rate_limited`": lambda life: life.queue.add_rate_limited(KEY),
    "a list shows it unchanged": Life.list_again,
    "`forget`": lambda life: life.queue.forget(KEY),
    "a turn of another handle": Life.turn_of_another,
    "the same, its delay over": Life.turn_when_due,
    "`distq requeue`": lambda life: life.inspector.requeue("foos", KEY),
    "`distq park`": lambda life: life.inspector.park("foos", KEY),
    "`distq delete`": lambda life: life.inspector.delete("foos", KEY),
}
ENDINGS: dict[str, Callable[[Life], object]] = {
    "`settle`: `None`, `Result()`": lambda life: life.settle(None),
    "`settle`: `Result(requeue_after=60)`": lambda life: life.settle(Result(requeue_after=60)),
    "the same, with `keep_failures=True`": lambda life: life.settle(
        Result(requeue_after=60, keep_failures=True)
    ),
    "`settle`: an exception": lambda life: life.settle(ValueError("no")),
    "the same, after `max_retries`": lambda life: life.settle(ValueError("no")),
    "`settle`: TerminalError": lambda life: life.settle(TerminalError("no")),
    "`done`": lambda life: life.queue.done(life.request),
    "`release`": lambda life: life.queue.release(life.request),
    "its session is closed": lambda life: life.queue.close(),
    "its session lapses": Life.lapse,
    "the same, the third time": Life.lapse_thrice,
}


def cell(connection: Connection, state: str, operation: str) -> str:
    """Do it to an item in that state; return what the table says of it."""
    life = Life(connection, max_retries=2 if "max_retries" in operation else None)
    try:
        life.begin(state)
        before = life.failures()
        {**OPERATIONS, **ENDINGS}[operation](life)
        after, became = life.failures(), life.state()
        change = "" if after == before else ", +1" if after > before else ", forgotten"
        return became + change
    finally:
        life.close()
        connection.server_time = 0


def shown(title: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the first cell and the others of each row of the page's table that begins so."""
    text = PAGE.read_text()
    table = text[text.index(f"| {title} |") :].partition("\n\n")[0].splitlines()
    for line in (table[0], *table[2:]):
        first, *others = [one.strip() for one in line.strip("|").split("|")]
        yield first, others


@pytest.mark.parametrize(
    ("title", "operations", "states"),
    [
        ("not claimed", OPERATIONS, FREE),
        ("claimed", OPERATIONS, HELD),
        ("end of the claim", ENDINGS, HELD),
    ],
)
def test_the_page_has_the_effect_of_each_operation_on_each_state(
    connection: Connection,
    title: str,
    operations: dict[str, Callable[[Life], object]],
    states: tuple[str, ...],
) -> None:
    """Each cell of the three tables is what a queue in Redis does."""
    found = {operation: [cell(connection, state, operation) for state in states] for operation in operations}
    table = [f"| {operation} | {' | '.join(cells)} |" for operation, cells in found.items()]
    assert dict(shown(title)) == {title: list(states), **found}, "\n".join(table)


def test_the_page_names_each_state() -> None:
    """Each state has its row, with its keys in Redis."""
    rows = re.findall(r"^\| \*(\w+)\* \|", PAGE.read_text(), re.MULTILINE)
    assert tuple(rows) == STATES
