"""How many sleepers an add wakes: only one may find work, and the others would ask Redis in vain."""

import threading
from unittest.mock import patch

from distq.redisio.connection import Connection
from distq.workqueue import heartbeat
from distq.workqueue.queue import Queue
from tests.counted.paths import scripts_of
from tests.support.eventually import eventually

HANDLES, ADDS = 10, 100


def scripts_of_add(connection: Connection) -> float:
    """Return the scripts that the server runs for one add, while ten handles wait: its claim and end, too."""
    connection.execute("FLUSHALL")
    settled = threading.Semaphore(0)
    handles = [Queue("counted", connection) for _ in range(HANDLES)]
    threads = [threading.Thread(target=_settle_all, args=(handle, settled)) for handle in handles]
    producer = Queue("counted", connection)

    def add(key: str) -> None:
        """Add a key while all sleep, and wait until they sleep again."""
        producer.add(key)
        assert settled.acquire(timeout=30)
        eventually(lambda: _sleepers(connection) == HANDLES)

    with patch.object(heartbeat, "NEWS_INTERVAL", 3600.0):  # heartbeats come by the clock
        for thread in threads:
            thread.start()
        eventually(lambda: _sleepers(connection) == HANDLES)
        add("first")  # which makes the queue known
        before = scripts_of(connection)
        for number in range(ADDS):
            add(f"namespace/object-{number}")
        after = scripts_of(connection)
        for handle in handles:
            handle.shut_down()
        for thread in threads:
            thread.join()
    return (after - before) / ADDS


def _settle_all(queue: Queue, settled: threading.Semaphore) -> None:
    for request in queue.listen():
        queue.settle(request)
        settled.release()


def _sleepers(connection: Connection) -> int:
    found = connection.execute("INFO", "clients").decode().partition("blocked_clients:")[2]
    return int(found.partition("\r")[0])
