"""``add_rate_limited``, repeated after RedisUnavailable: one failure, as far as a handle can know."""

import threading
from collections.abc import Callable

import pytest

from distq.errors import RedisUnavailable
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import Failure
from tests.workqueue.conftest import SteppedClock
from tests.workqueue.test_session import Unheard

pytestmark = pytest.mark.first_contact(3)


class Unsent(Unheard):
    """A connection that can also lose calls before the server has them."""

    unsent = 0

    def evaluate(self, source: str, sha: str, arguments, *meanwhile):  # type: ignore[no-untyped-def]  # as the original's
        """Let the server do it, unless the call gets lost, and perhaps lose the reply."""
        if self.unsent:
            self.unsent -= 1
            raise RedisUnavailable("the call was lost")
        return super().evaluate(source, sha, arguments, *meanwhile)


@pytest.fixture
def lossy(redis_server: EmbeddedValkey, connection: Connection) -> Unsent:
    """Give a connection on which calls and replies can get lost, to the emptied database."""
    lossy = Unsent(redis_server.url)
    lossy.server_time = connection.server_time
    return lossy


@pytest.fixture
def queue(lossy: Unsent) -> Queue:
    """Make a handle whose session is open."""
    queue = Queue("foos", lossy)
    queue.turn([], 0)
    return queue


def _lose_reply(lossy: Unsent) -> None:
    lossy.lost = 1


def _lose_call(lossy: Unsent) -> None:
    lossy.unsent = 1


lost = pytest.mark.parametrize("lose", [_lose_reply, _lose_call])
Lose = Callable[[Unsent], None]


def _fails(queue: Queue, lossy: Unsent, lose: Lose, key: str = "a") -> None:
    lose(lossy)
    with pytest.raises(RedisUnavailable):
        queue.add_rate_limited(key)


@lost
@pytest.mark.parametrize("times", [1, 3])
def test_repeated_until_it_is_answered_it_counts_once(
    queue: Queue, lossy: Unsent, lose: Lose, times: int
) -> None:
    """Whether the server had it or not; a later failure is another one."""
    for _ in range(times):
        _fails(queue, lossy, lose)
    queue.add_rate_limited("a")
    assert queue.num_requeues("a") == 1
    queue.add_rate_limited("a")
    assert queue.num_requeues("a") == 2
    queue.close()


@lost
def test_before_the_session_is_open_it_counts_once_too(lossy: Unsent, lose: Lose) -> None:
    """The call that was lost then is that which opens it."""
    queue = Queue("foos", lossy)
    _fails(queue, lossy, lose)
    queue.add_rate_limited("a")
    assert queue.num_requeues("a") == 1
    queue.close()


@lost
def test_a_custom_limiter_is_asked_about_one_failure(lossy: Unsent, lose: Lose) -> None:
    """Its attempt is that of the first call."""
    heard: list[Failure] = []
    queue = Queue("foos", lossy, rate_limiter=lambda failure: heard.append(failure) or 1.0)  # type: ignore[func-returns-value]
    queue.turn([], 0)
    _fails(queue, lossy, lose)
    queue.add_rate_limited("a")
    assert {failure.attempt for failure in heard} == {1}
    assert queue.num_requeues("a") == 1
    queue.close()


@lost
@pytest.mark.parametrize(
    "between",
    [
        lambda queue: queue.add("a"),
        lambda queue: queue.forget("b"),
        lambda queue: queue.turn([], 0),
        lambda queue: queue.add_rate_limited("b"),
    ],
)
def test_after_another_call_of_the_thread_it_is_another_failure(
    queue: Queue, lossy: Unsent, lose: Lose, between: Callable[[Queue], object]
) -> None:
    """A thread that went on did not repeat; the next turn makes up for the call in doubt."""
    _fails(queue, lossy, lose)
    between(queue)
    queue.add_rate_limited("a")
    assert queue.num_requeues("a") == 2
    queue.close()


@lost
def test_of_another_thread_it_is_another_failure(queue: Queue, lossy: Unsent, lose: Lose) -> None:
    """Two that fail at the same key are two."""
    _fails(queue, lossy, lose)
    thread = threading.Thread(target=lambda: queue.add_rate_limited("a"))
    thread.start()
    thread.join()
    queue.add_rate_limited("a")
    assert queue.num_requeues("a") == 2
    queue.close()


@lost
def test_after_the_claim_duration_it_is_another_failure(lossy: Unsent, lose: Lose) -> None:
    """A producer that fails once an hour makes no other call in between."""
    clock = SteppedClock()
    queue = Queue("foos", lossy, clock=clock)
    queue.turn([], 0)
    _fails(queue, lossy, lose)
    clock.ahead = 29
    _fails(queue, lossy, lose)
    clock.ahead += 31
    queue.add_rate_limited("a")
    assert queue.num_requeues("a") == 2
    queue.close()
