"""What the tests of the queue share: a server's clock that the test moves.

Tests marked ``anywhere`` run on a MemoryQueue, too; they ask for no more than ``queue``,
``make_queue`` and ``server_time``.
"""

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from distq.clock import SYSTEM_CLOCK, SystemClock
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.fake_clock import FakeClock
from distq.workqueue.memory import MemoryQueue
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


def end_heartbeat(queue: Queue) -> None:
    """Let a handle send no heartbeat from now on: one with news comes within two seconds."""
    assert queue._session._heartbeat is not None
    queue._session._heartbeat.stop()


def beat(queue: Queue) -> bool:
    """Send a handle's heartbeat now; return whether the server has its session."""
    session = queue._session
    assert session._heartbeat is not None
    return session._heartbeat.beat(session)


class Memory:
    """What replaces a server where there is none: the handles of one memory queue, and their time."""

    def __init__(self, *, stopped: bool) -> None:
        self.fake_clock = FakeClock(1_795_000_000)
        self.made: list[MemoryQueue] = []
        self._clock = self.fake_clock if stopped else SYSTEM_CLOCK

    def make(self, **arguments: object) -> MemoryQueue:
        """Make a handle."""
        shares = self.made[0] if self.made else None
        self.made.append(MemoryQueue("foos", shares=shares, clock=self._clock, **arguments))  # type: ignore[arg-type]  # the test's words
        return self.made[-1]


class MemoryTime(ServerTime):
    """The time of a queue in memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._memory.fake_clock.step(seconds)

    def lapse(self, *living: Queue) -> None:
        """Let the claims of all other handles lapse."""
        self.advance(living[0].claim_duration / 3 * 4)
        ids = set(map(id, living))
        for queue in self._memory.made:
            if id(queue) not in ids:
                queue.abandon()


@pytest.fixture
def memory(request: pytest.FixtureRequest, redis_server: EmbeddedValkey | None) -> Memory | None:
    """Give a queue in memory, where that is asked for."""
    stopped = "server_time" in request.fixturenames
    return Memory(stopped=stopped) if redis_server is None else None


@pytest.fixture
def server_time(request: pytest.FixtureRequest, memory: Memory | None) -> ServerTime:
    """Stop the server's clock."""
    return ServerTime(request.getfixturevalue("connection")) if memory is None else MemoryTime(memory)


@pytest.fixture
def make_queue(request: pytest.FixtureRequest, memory: Memory | None) -> Iterator[Callable[..., Queue]]:
    """Make handles of one queue, as if in different processes."""
    made: list[Queue] = []
    connection = request.getfixturevalue("connection") if memory is None else None

    def make(**arguments: object) -> Queue:
        if memory is not None:
            return cast("Queue", memory.make(**arguments))  # the test needs only these methods
        made.append(Queue("foos", connection, **arguments))  # type: ignore[arg-type]  # the test's words
        return made[-1]

    yield make
    for queue in made:
        queue.close()


@pytest.fixture
def queue(make_queue: Callable[..., Queue]) -> Queue:
    """Make one handle."""
    return make_queue()
