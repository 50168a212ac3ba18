"""What a failover of Redis loses, and how long nothing can be added: python -m benchmarks.redis_failover.

One primary, two replicas and three Sentinels on this machine; four producers add keys of their own without
pause while the primary is killed, frozen for a while, or replaced by plan. What ``add`` returned for and the
new primary does not have is lost; the outage is the longest time between two adds that returned. Loopback
replicates within a millisecond: what a ``kill -9`` loses here says nothing of a network.
"""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import click

from benchmarks.report import Row, publish
from distq.errors import RedisUnavailable
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.support.redis_servers import server_of
from tests.support.redis_topologies import SERVICE, Sentinels

QUEUE = "failover"
PRODUCERS = 4
WARM_UP = 2.0
AFTERWARDS = 4.0
"""Seconds of adding after the last thing that was done."""
FROZEN = 6.0
PAUSE = 20_000
"""Milliseconds for which the runbook holds writes: more than it takes to demote the old primary."""
MIN_REPLICAS = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "1")


class Producers:
    """Threads that add until they are stopped, and remember what was acknowledged, and when."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._add, args=(n,)) for n in range(PRODUCERS)]
        self.acknowledged: list[tuple[float, str]] = []

    def start(self) -> None:
        """Begin to add."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop, and wait for the adds under way."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def outage(self) -> float:
        """Return the longest time between two adds that returned."""
        times = sorted(at for at, _ in self.acknowledged)
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    def _add(self, number: int) -> None:
        connection, count = Connection(self._url), 0
        queue = Queue(QUEUE, connection)
        while not self._stopped.is_set():
            count += 1
            key = f"{number}/{count}"
            try:
                queue.add(key)
            except RedisUnavailable:
                time.sleep(0.02)
            else:
                self.acknowledged.append((time.monotonic(), key))
        connection.close()


def killed(sentinels: Sentinels) -> None:
    """Kill the primary."""
    primary = sentinels.primary()
    sentinels.kill(primary)
    _until(lambda: sentinels.primary() != primary)


def frozen(sentinels: Sentinels) -> None:
    """Freeze the primary until another is promoted, and some more; then it goes on and knows nothing."""
    primary = sentinels.primary()
    process = sentinels.servers[primary].pid
    os.kill(process, signal.SIGSTOP)
    time.sleep(FROZEN)
    _until(lambda: sentinels.primary() != primary)
    os.kill(process, signal.SIGCONT)
    time.sleep(12)


def planned(sentinels: Sentinels) -> None:
    """Let the Sentinels promote a replica, without more ado."""
    sentinels.fail_over()
    time.sleep(12)


def by_runbook(sentinels: Sentinels) -> None:
    """Hold writes until the replicas have all, and then let one be promoted."""
    sentinels.ask(sentinels.primary(), "CLIENT", "PAUSE", PAUSE, "WRITE")
    sentinels.fail_over()
    time.sleep(12)


SCENES: dict[str, tuple[Callable[[Sentinels], None], tuple[str, ...]]] = {
    "unplanned, kill -9": (killed, ()),
    "unplanned, kill -9, min-replicas-to-write 1": (killed, MIN_REPLICAS),
    "unplanned, frozen and back": (frozen, ()),
    "unplanned, frozen and back, min-replicas-to-write 1": (frozen, MIN_REPLICAS),
    "planned, SENTINEL FAILOVER alone": (planned, ()),
    "planned, SENTINEL FAILOVER alone, min-replicas-to-write 1": (planned, MIN_REPLICAS),
    "planned, by the runbook": (by_runbook, ()),
}


def measure(name: str, server: Path) -> list[Row]:
    """Play one scene and return its rows."""
    happen, options = SCENES[name]
    with Sentinels(server, options=options) as sentinels:
        sentinels.wait_until_settled()
        producers = Producers(sentinels.url)
        producers.start()
        time.sleep(WARM_UP)
        happen(sentinels)
        time.sleep(AFTERWARDS)
        producers.stop()
        kept = set(sentinels.ask(sentinels.primary(), "ZRANGE", f"distq:{{{QUEUE}}}:ready", 0, -1))
    lost = [at for at, key in producers.acknowledged if key.encode() not in kept]
    span = max(lost) - min(lost) if lost else 0.0
    return [
        Row(f"{name}: lost", len(lost), "adds", bar=0 if happen is by_runbook else None),
        Row(f"{name}: acknowledged", len(producers.acknowledged), "adds"),
        Row(f"{name}: between the first and the last that was lost", span, "s"),
        Row(f"{name}: outage", producers.outage(), "s"),
    ]


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise click.ClickException(f"the Sentinels of {SERVICE} promoted nobody within 30 s")
        time.sleep(0.01)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.option("--server", "kind", default="redis7", help="redis7, redis6 or valkey9.")
@click.option("--scene", "scenes", multiple=True, type=click.Choice(list(SCENES)), help="This one only.")
def main(*, as_json: bool, kind: str, scenes: tuple[str, ...]) -> None:
    """Measure what failovers of Redis lose; three minutes."""
    rows = [row for name in scenes or SCENES for row in measure(name, server_of(kind))]
    raise SystemExit(publish(rows, as_json=as_json))


if __name__ == "__main__":
    main()
