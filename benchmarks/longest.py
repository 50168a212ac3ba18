"""The longest time that one script keeps the server to itself, each called with the most that it takes.

The server's slow log has the time of a call on the wall, with what else the machine did meanwhile;
the CPU time of its main thread has it without, but with the reading of the call and the writing of the
reply. Both are more than what the script took, so the smaller counts.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from benchmarks.servers import Server
from benchmarks.subjects import Consumer, Distq, fill, new_keys
from distq.redisio.commit import Commit
from distq.redisio.limits import COSTLY_LIMIT, REPAIR_LIMIT
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import StreamStore

SECOND = 1_000_000
LIMITER = "exp 5000 1000000000 bucket 10 100 maxof 2"
ERROR = "ConnectionError: " + 180 * "x"
TRACEBACK = ERROR + "\n" + 2000 * "y"


def measure(server: Server, rounds: int, depth: int) -> list[dict[str, float]]:
    """Return what each call took in each round, in ms; ``depth`` items wait in the queue."""
    connection = server.connection
    connection.execute("CONFIG", "SET", "slowlog-log-slower-than", 0)
    took = []
    for _ in range(rounds + 1):
        connection.execute("FLUSHALL")
        try:
            calls = _Calls(server)
            fill(Distq(connection, "foos"), new_keys(), depth)
            calls.make()
        finally:
            connection.server_time = 0
        took.append(calls.took)
    connection.execute("CONFIG", "SET", "slowlog-log-slower-than", 10_000)
    return took[1:]  # the first loaded the scripts


class _Calls:
    """One round. The clock of the scripts is ours: items are due and sessions lapse when we say so."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection = server.connection
        self.store = QueueStore(self.connection, "foos")
        self.took: dict[str, float] = {}
        self.now = self.store.connection.now()
        self.keys = (f"namespace/{key}" for key in new_keys())

    def make(self) -> None:
        """Call each script with the most that it takes."""
        self._producers()
        self._consumer()
        self._suspects()
        self._people()

    def _producers(self) -> None:
        many = self._some(1000)
        pending = {"priority": 5, "max_length": ""}
        self._time("add of 1,000", "add", **pending, items=many)
        self._time("add of 1,000 to a full queue", "add", **pending | {"max_length": 1}, items=many)
        self._time("add_after of 1,000", "add_after", **pending, items=self._some(1000), delay=60 * SECOND)
        self._noted("commit of 1,000", lambda: self._commit(self._some(1000), {}))
        self._noted(
            "commit of 1,000 versions", lambda: self._commit([], dict.fromkeys(self._some(1000), "123"))
        )

    def _commit(self, keys: Sequence[str], known: dict[str, str]) -> None:
        stream = StreamStore(self.connection, "foos", "pods" + str(len(known)))
        stream.commit(Commit(epoch="7", after="", new="100", batch="b0", keys=keys, known=known))

    def _consumer(self) -> None:
        consumer = Consumer(self.store)
        turn = consumer.turn
        held = self._noted("turn: 250 claims", lambda: turn(250))
        held = self._noted("turn: 250 successes, 250 claims", lambda: turn(250, held))
        for outcome, limiter, text in (
            ("retry", LIMITER, ERROR),
            ("release", "", ""),
            ("after", "fixed 3600000000", ""),
            ("done", "", ""),
            ("park", "", TRACEBACK),
        ):
            well, others = (
                held[COSTLY_LIMIT:],
                [(item, outcome, limiter, text) for item in held[:COSTLY_LIMIT]],
            )
            name = f"turn: 200 successes, {COSTLY_LIMIT} {outcome}, 250 claims"
            held = self._noted(name, lambda well=well, others=others: turn(250, well, others))
        self._pass(90)
        held = self._noted("turn: 250 successes, 250 promotions and claims", lambda: turn(250, held))

        victim = Consumer(self.store, claim_duration=30)
        victim.turn(250)
        beat = {
            "session": consumer.session,
            "claim_duration": 3600 * SECOND,
            "max_clock_step": 10 * SECOND,
            "worker": "{}",
        }
        for _ in range(6):
            self._pass(10)
            self._time("heartbeat: 100 taken back", "heartbeat", **beat)

    def _suspects(self) -> None:
        emptying, other = Consumer(self.store), Consumer(self.store)
        for consumer in (emptying, other):
            consumer.turn(1)
        suspects = self._some(1000)
        self.store.run("add", priority=900, max_length="", items=suspects)
        words = [word for item in suspects for word in (item, "0 2 0 - ValueError: no")]
        self.connection.execute("HSET", self.store.key("failures"), *words)
        for consumer in (emptying, *9 * [other]):
            assert not self._noted(
                "turn: 100 suspects set apart", lambda consumer=consumer: consumer.turn(250)
            )
        claimed = self._noted("turn: 250 claims beside 1,000 suspects", lambda: other.turn(250))
        assert len(claimed) == 250

    def _people(self) -> None:
        some = self._some(REPAIR_LIMIT)
        self.store.run("add_after", priority=0, max_length="", items=some, delay=60 * SECOND)
        self._time(f"park of {REPAIR_LIMIT}", "park", why="by hand", items=some)
        self._time(f"requeue of {REPAIR_LIMIT}", "requeue", state="", items=some)
        self._time(f"delete of {REPAIR_LIMIT}", "delete", state="", items=some)
        self._time("forget of 1,000", "forget", items=self._some(1000))

    def _some(self, items: int) -> list[str]:
        return list(islice(self.keys, items))

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        self.connection.server_time = int(self.now * 1e6)

    def _time(self, name: str, script: str, **inputs: Any) -> None:
        self._noted(name, lambda: self.store.run(script, **inputs))

    def _noted(self, name: str, call: Any) -> Any:
        self.connection.execute("SLOWLOG", "RESET")
        begin = self.server.cpu()
        result = call()
        cpu = self.server.cpu() - begin
        entries = self.connection.execute("SLOWLOG", "GET", 128)
        wall = max(entry[2] for entry in entries if entry[3][0].upper() == b"EVALSHA")
        self.took[name] = max(self.took.get(name, 0), min(cpu, wall) / 1000)
        return result
