"""What the tests of the queue share: a server's clock that stands still until it is told to move."""

from collections.abc import Callable, Iterator

import pytest

from distq.clock import SystemClock
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue


class SteppedClock(SystemClock):
    """A clock of this process that a test moves ahead."""

    ahead = 0.0

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return super().monotonic() + self.ahead


class ServerTime:
    """The time that scripts see."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        connection.server_time = 1_795_000_000_000_000

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._connection.server_time += round(seconds * 1_000_000)

    def lapse(self, *living: Queue) -> None:
        """Let a claim duration pass in which only these handles send heartbeats."""
        for _ in range(4):
            self.advance(living[0].claim_duration / 3)
            for queue in living:
                beat(queue)


def beat(queue: Queue) -> bool:
    """Send a handle's heartbeat now; return whether the server has its session."""
    session = queue._session
    assert session is not None
    assert session._heartbeat is not None
    return session._heartbeat.beat(session)


@pytest.fixture
def server_time(connection: Connection) -> ServerTime:
    """Stop the server's clock."""
    return ServerTime(connection)


@pytest.fixture
def make_queue(connection: Connection) -> Iterator[Callable[..., Queue]]:
    """Make handles of one queue, as if in different processes."""
    made: list[Queue] = []

    def make(**arguments: object) -> Queue:
        made.append(Queue("foos", connection, **arguments))  # type: ignore[arg-type]  # the test's words
        return made[-1]

    yield make
    for queue in made:
        queue.close()


@pytest.fixture
def queue(make_queue: Callable[..., Queue]) -> Queue:
    """Make one handle."""
    return make_queue()
