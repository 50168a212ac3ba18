"""A queue with something in each structure, of which living and dead processes hold items."""

import threading
import time
from collections.abc import Sequence
from typing import Any

from distq.errors import RedisRefused
from distq.inspector import Inspector, ItemInfo
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from distq.workqueue.rate_limiters import ItemExponentialFailureRateLimiter
from distq.workqueue.request import Request
from tests.support.eventually import eventually

NAME = "live"
SECOND = 1_000_000
STATES = ("ready", "delayed", "failing", "held", "dirty", "orphaned", "dead")
PER_STATE = 20


def names(state: str) -> list[str]:
    """Return the keys that are in a state at first."""
    return [f"{state}/{n}" for n in range(PER_STATE)]


class LiveQueue:
    """The queue, the handle that holds some of its items, and two workers that work it off.

    With a ``limit`` it is fair, its workers process so many items of a namespace at a time, and some are held
    back.
    """

    def __init__(self, connection: Connection, *, limit: int | None = None) -> None:
        self.connection = connection
        self._limit = limit
        self.store = QueueStore(connection, NAME)
        self.inspector = Inspector(connection)
        self.processed: list[str] = []
        self.errors: list[BaseException] = []
        self.handles: list[Queue] = []
        self._threads: list[threading.Thread] = []
        self.holder = self.handle()
        self.held: list[Request] = []
        self._fill()
        if limit is not None:
            self._hold_back()

    def handle(self) -> Queue:
        """Return a handle of the queue."""
        limiter = ItemExponentialFailureRateLimiter(0.01, 0.05)
        fair_by = "namespace" if self._limit else None
        handle = Queue(NAME, self.connection, claim_duration=1.0, rate_limiter=limiter, fair_by=fair_by)
        self.handles.append(handle)
        return handle

    def _fill(self) -> None:
        queue = self.holder
        queue.add(*names("orphaned"))
        self._claim_and_die()
        queue.add(*names("held"), *names("dirty"))
        self.held = list(queue.turn([], 2 * PER_STATE).requests)
        queue.add(*names("dirty"))
        queue.add(*names("dead"))
        self.inspector.park(NAME, state="ready", match="dead/*")
        queue.add(*names("ready"))
        for key in names("failing"):
            queue.add_rate_limited(key)
        queue.add(*names("delayed"), after=1.0)
        stream = StreamStore(self.connection, NAME, "v1/Pod")
        stream.commit(Commit(epoch="7", after="", new="100", batch="b0", known={"ns/pod": "100"}))

    def _worker(self) -> Queue:
        worker = self.handle()
        worker.fleet_concurrency_per_flow = self._limit
        return worker

    def _hold_back(self) -> None:
        self.holder.fleet_concurrency_per_flow = self._limit  # it held more before
        for request in self.holder.turn([], PER_STATE).requests:
            self.holder.release(request)
        assert self.command("ZCARD", "held_back") > 0

    def add_suspects(self) -> list[str]:
        """Let some items wait apart, as suspects; return their keys."""
        keys = names("suspects")
        for place, key in enumerate(keys, 1):
            self.command("ZADD", "suspects", 2**52 + place, key)
            self.command("HSET", "failures", key, "0 2 0 - ")
        return keys

    def _claim_and_die(self) -> None:
        times = {"claim_duration": SECOND, "max_clock_step": SECOND // 3}
        session = self.store.run("open", layout=1, nonce="dead", worker='{"id": "dead"}', **times)
        policy = {
            "max_retries": "",
            "revive_after": "",
            "limiter": "fixed 1",
            "fleet_concurrency": "",
            "fleet_concurrency_per_flow": "",
        }
        self.store.run(
            "turn",
            session=session,
            op=1,
            after="",
            want=PER_STATE,
            max_clock_step=SECOND // 3,
            n_ok=0,
            settlements=[],
            **policy,
        )

    # What is planted

    def plant_texts(self, structure: str, fields: Sequence[str | bytes], texts: Sequence[bytes]) -> None:
        """Write garbage values into some fields of a hash."""
        for field, text in zip(fields, texts, strict=False):
            self.command("HSET", structure, field, text)

    def plant_scores(self, structure: str, members: Sequence[str | bytes], scores: Sequence[str]) -> None:
        """Write garbage scores of some members."""
        for member, score in zip(members, scores, strict=False):
            self.command("ZADD", structure, score, member)

    def command(self, command: str, structure: str, *rest: Any) -> Any:
        """Run a command on one of the queue's structures."""
        if command == "RENAME":
            rest = (queue_key(NAME, rest[0]),)
        return self.connection.execute(command, queue_key(NAME, structure), *rest)

    # Work

    def start(self) -> None:
        """Start two workers."""
        for _ in range(2):
            thread = threading.Thread(target=self._work, args=(self._worker(),))
            self._threads.append(thread)
            thread.start()

    def settle_held(self) -> None:
        """Let the first handle settle what it holds."""
        for request in self.held:
            self.holder.settle(request, RuntimeError("boom") if request.key.endswith("3") else None)
            self.processed.append(request.key)

    def _work(self, queue: Queue) -> None:
        while not queue.shutting_down:
            try:
                for request in queue.listen():
                    self.processed.append(request.key)
                    fails = request.attempt == 1 and request.key.endswith("5")
                    queue.settle(request, RuntimeError("boom") if fails else None)
            except RedisRefused as error:  # as the dispatcher does
                self.errors.append(error)
                time.sleep(0.1)
            except Exception as error:  # noqa: BLE001 - the test says so
                self.errors.append(error)
                return

    def stop(self) -> None:
        """End the workers."""
        for handle in self.handles:
            handle.shut_down()
        for thread in self._threads:
            thread.join()
        for handle in self.handles:
            handle.close()

    def unreadable(self) -> dict[str, ItemInfo]:
        """Return the dead items that were set aside."""
        dead = self.inspector.items(NAME, state="dead", limit=10_000)
        return {item.key: item for item in dead if item.reason == "unreadable"}

    def expect_all(self, keys: set[str], *, but_errors: bool = False) -> None:
        """Wait until each of the keys was processed, or is dead."""

        def missing() -> set[str]:
            return keys - {*self.processed} - {*self.unreadable()}

        eventually(lambda: not missing(), lambda: f"not processed: {sorted(missing())}; {self.errors}")
        assert but_errors or not self.errors, self.errors

    def look(self) -> None:
        """Ask for all that people see."""
        self.inspector.queues()
        self.inspector.workers()
        self.inspector.streams()
        self.inspector.items(NAME, limit=10_000)
        self.inspector.items(NAME, match="*?*", limit=10_000)
        self.inspector.items(NAME, failing=True, limit=10_000)
        for state in ("ready", "dirty", "processing", "delayed", "dead"):
            self.inspector.items(NAME, state=state, limit=10_000)
