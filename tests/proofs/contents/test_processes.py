"""Worker processes as they are deployed, on a queue into which a foreign program wrote."""

from pathlib import Path

from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key, shown
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine, distq, imported_program, redis, valkey
from tests.proofs.contents.garbage import MEMBERS, SCORES, TEXTS
from tests.support.eventually import eventually

__all__ = ["distq", "imported_program", "redis", "valkey"]

SOURCE = """
import time
from pathlib import Path

from distq import Controller, Queue


def reconcile(request):
    with Path("journal").open("a") as journal:
        journal.write(f"{request.key}\\n")
    time.sleep(0.02)


garbled = Controller(Queue("garbled", claim_duration=1.0), reconcile, concurrency=8)
"""
KEYS = [f"ns/{n}" for n in range(400)]


def _plant(redis: Connection) -> None:
    """Write garbage into all that there is, beside all that makes sense."""

    def run(command: str, structure: str, *rest: bytes | str) -> None:
        redis.execute(command, queue_key("garbled", structure), *rest)

    for structure in ("ready", "suspects", "processing", "delayed", "sessions"):
        for place, member in enumerate(MEMBERS):
            run("ZADD", structure, SCORES[place], member)
    for place, text in enumerate(TEXTS):
        run("HSET", "failures", KEYS[-1 - place], text)
        for structure in ("workers", "streams", "claims"):
            run("HSET", structure, MEMBERS[place % len(MEMBERS)], text)
    for place, score in enumerate(SCORES):
        run("ZADD", "ready", score, f"ns/{score}")
        run("ZADD", "suspects", score, f"apart/{score}")
        run("ZADD", "delayed", score, f"later/{score}")
        for field in ("clock", "stamp", "layout", "cover"):
            run("HSET", "meta", field, TEXTS[place])
    for number in redis.execute("ZRANGE", queue_key("garbled", "sessions"), 0, -1):
        run("HSET", "workers", number, TEXTS[0])
    for item in redis.execute("HKEYS", queue_key("garbled", "claims"))[:3]:
        run("HSET", "claims", item, TEXTS[3])


def test_worker_processes_go_on_after_any_foreign_write(distq: CommandLine, redis: Connection) -> None:
    """One is killed with its items, another goes on: every key is reconciled, or dead and unreadable."""
    distq.module("garbled", SOURCE)
    Queue("garbled", redis).add(*KEYS)
    killed, inspector, journal = (
        distq.start("worker", "garbled"),
        Inspector(redis),
        Path(distq.folder, "journal"),
    )
    other = None
    try:
        eventually(lambda: journal.exists() and len(journal.read_text().splitlines()) > 50, "no work done")
        _plant(redis)
        other = distq.start("worker", "garbled")
        eventually(lambda: len(inspector.workers("garbled")) > 1, "no second worker")
        killed.kill()
        _plant(redis)

        def is_done() -> bool:
            (queue,) = inspector.queues()
            return queue.ready + queue.delayed + queue.processing == 0

        def dead() -> dict[str, str | None]:
            return {item.key: item.reason for item in inspector.items("garbled", state="dead", limit=1000)}

        eventually(is_done, lambda: str(inspector.queues()), timeout=90)
        # what was dead before it was written into other places, too, is claimed from there once more
        eventually(lambda: {*dead().values()} == {"unreadable"}, lambda: str(dead()), timeout=90)
        expected = {*KEYS, *(f"{where}/{score}" for where in ("ns", "later") for score in SCORES)}
        assert {*dead()} >= {shown(member) for member in MEMBERS}
        assert expected <= {*dead(), *journal.read_text().splitlines()}
        assert other.poll() is None
    finally:
        for process in (killed, other):
            if process is not None:
                process.terminate()
                said = process.communicate(timeout=60)[1]
                assert "Traceback" not in said, said
    assert other.returncode == 0
