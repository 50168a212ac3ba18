"""A queue with something in each of its structures, and one call of each script that would change it."""

from collections.abc import Sequence
from typing import Any

from distq.redisio import scripts
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.keys import queue_key
from distq.redisio.object_cache import CachedObject
from distq.redisio.stream_keys import StreamKeys
from distq.redisio.stream_store import StreamStore

NOW = 1_795_000_000_000_000
SECOND = 1_000_000
STREAM = "pods"
SPAN = f"00-{1:032x}-{1:016x}-01"
NAMES = frozenset(name for script in scripts.names() for name in scripts.load(script).keys)
"""All that a queue consists of."""


class Populated:
    """The queue foos, and a session that holds three of its items."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.store = StreamKeys(connection, "foos", STREAM)
        self.time = NOW
        self.turns = 0
        self.run("share", wanted="namespace")
        self.session = self.open("mine")
        self.add("held", "again", "backs-off")
        self.fence, _ = self.turn("first", [], want=3)
        self.add("again", "ready", "poison")
        self.run("add_after", items=["later"], priority=7, max_length="", delay=60 * SECOND)
        self.turn("second", [("backs-off", "", "limit", "fixed 9000000", 0, "boom")], want=0)
        other = self.open("other")
        self.turn("third", [], want=9, session=other)
        self.turn("fourth", [("poison", self.fence_of("poison"), "park", "", "", "no")], 0, session=other)
        self.run("close", session=other, worker="{}")
        last = 2**52 + NOW + 3600 * SECOND
        connection.execute(
            "ZADD", self.store.key("suspects"), last, "suspect", last, "late", last, "out-of-date"
        )
        connection.execute("ZADD", self.store.key("held_back"), last, "waits")
        crashes = {"suspect": "0 2 0 - ", "late": "0 2 0 -@7,8 ", "out-of-date": "0 2 0 -@5,6 "}
        for item, record in crashes.items():
            connection.execute("HSET", self.store.key("failures"), item, record)
        connection.execute("HSET", self.store.key("failures"), "poison", "1 3 7 crashes@5,6,7 no")
        StreamStore(connection, "foos", STREAM).commit(
            Commit(
                epoch="7",
                after="",
                new="100",
                batch="b0",
                keys=["ready"],
                known={"old": "1", "pod": "2"},
                objects=[
                    CachedObject("pod", "2", b"{}", {"owner": ["web"]}),
                    CachedObject("old", "1", b"{}"),
                ],
            )
        )

    def become(self, connection: Connection) -> None:
        """Go on as another user."""
        self.connection, self.store = connection, StreamKeys(connection, "foos", STREAM)

    def run(self, script: str, **inputs: Any) -> Any:
        """Run a script, a second after the one before."""
        self.time += SECOND
        self.connection.server_time = self.time
        return self.store.run(script, **inputs)

    def open(self, nonce: str) -> str:
        """Open a session."""
        return str(self.run("open", **_OPEN | {"nonce": nonce}).decode())

    def add(self, *items: str) -> Any:
        """Add items."""
        return self.run("add", items=items, priority=0, max_length="", link=SPAN)

    def turn(
        self, op: str, others: Sequence[tuple[Any, ...]], want: int, session: str = ""
    ) -> tuple[int, Any]:
        """Settle and claim; return the fence and the reply."""
        flat = [value for each in others for value in each]
        inputs = self._turn(op, session or self.session) | {"settlements": flat, "want": want}
        reply = self.run("turn", **inputs)
        return int(reply[0]), reply

    def back_off(self, item: str, limiter: str) -> int:
        """Count a failure without letting time pass; return the due time in ms, 0 where it is pending."""
        self.turns += 1
        settlement = [item, "", "limit", limiter, 0, ""]
        inputs = self._turn(f"back-off-{self.turns}", self.session) | {"settlements": settlement, "want": 0}
        disposition = self.store.run("turn", **inputs)[4][0]
        return 0 if disposition == b"pending" else int(disposition)

    def fence_of(self, item: str) -> int:
        """Return the fence of a claim."""
        (claim,) = self.store.read(("HGET", "claims", item))
        return int(claim.split(b" ")[1])

    def dumps(self) -> dict[str, Any]:
        """Return all that there is of the queue, as Redis would save it."""
        return {name: self.connection.execute("DUMP", self.store.key(name)) for name in sorted(NAMES)}

    def inputs(self, script: str) -> dict[str, Any]:
        """Return inputs with which a script changes the queue, which is made such that it can."""
        if script == "fair_by":
            self.connection.execute("HDEL", self.store.key("meta"), "fair_by")
        if script == "resume":
            self.run("pause")
        if script == "caught_up":
            self.run("catch_up", **self._calls()["catch_up"])
        return self._calls()[script]

    def _calls(self) -> dict[str, dict[str, Any]]:
        session = {"session": self.session}
        settlements = [
            *("held", self.fence),
            *("again", self.fence, "retry", "bucket 10 1", "", "boom"),
        ]
        pending = {"priority": 9, "max_length": ""}
        cached = [*("pod", b"3\nall", b"3\n{}"), *("old", b"101\ngone", b"")]
        rest = ["new", "suspect", "poison", "pod", "3", "old", *cached]
        counts = {"n_items": 3, "n_known": 1, "n_cached": 2}
        unrouted = {"unrouted": '["bad", "why"]', "parked_as": "", "link": SPAN}
        batch = (
            {"keep_pending": 0, "clears_cache": 0, "terms_limit": 2**20, "delay": 0, "rest": rest}
            | counts
            | unrouted
        )
        record = {"epoch": "8", "replaces": "", "after": "b0", "new": "101", "batch": "b1", "about": "{}"}
        return {
            "open": _OPEN | {"nonce": "third"},
            "heartbeat": session
            | {"claim_duration": 90 * SECOND, "max_clock_step": 10 * SECOND, "worker": "me"},
            "close": session | {"worker": '{"done": 3, "failed": 1}'},
            "add": pending | {"items": ["new", "again", "later", "poison", "suspect"], "link": SPAN},
            "add_after": pending | {"items": ["new", "ready", "later", "poison", "suspect"], "delay": SECOND},
            "turn": self._turn("fifth", self.session)
            | {"n_ok": 1, "settlements": settlements, "want": 5, "wants_links": "1"},
            "cache/read": {"stream": STREAM, "limit": 9, "max_bytes": 9} | {"ranges": [b"[all\0", b"(all\1"]},
            "cache/write": {"stream": STREAM, "watch": "", "records": ["pod", b"101\nall", b"101\n{}"]},
            "commit": {"stream": STREAM, "priority": -9} | record | batch,
            "forget": {"items": ["backs-off", "held", "suspect"]},
            "forgive": session | {"held": ["poison", 6, "held", 8, "late", 7]},
            "requeue": {"state": "", "items": ["backs-off", "later", "poison", "held", "suspect"]},
            "catch_up": {"epoch": "8", "timeout": 120 * SECOND},
            "caught_up": {"epoch": "8"},
            "fair_by": {"fair_by": "namespace"},
            "share": {"wanted": "none"},
            "pause": {},
            "resume": {},
            "park": {"why": "by hand", "items": ["ready", "later", "held", "poison", "suspect"]},
            "trace": {"duration": 60 * SECOND, "limit": 1000, "longest": 9000, "kept": 60 * SECOND}
            | {"max_bytes": 10**6, "match": "*"},
            "delete": {"state": "", "items": ["ready", "again", "later", "poison", "suspect"]},
        }

    def _turn(self, op: str, session: str) -> dict[str, Any]:
        policy = {
            "max_retries": 3,
            "revive_after": 900 * SECOND,
            "limiter": "exp 5000 1000000000",
            "fleet_concurrency": "",
            "fleet_concurrency_per_flow": 9,
        }
        return {"session": session, "op": op, "after": "", "max_clock_step": 10 * SECOND, "n_ok": 0} | policy


_OPEN = {"layout": 1, "claim_duration": 600 * SECOND, "max_clock_step": 10 * SECOND, "worker": "somebody"}


def key(name: str) -> str:
    """Return the key of a structure of the populated queue."""
    return queue_key("foos", f"{name}:{STREAM}" if name in {"known", "cache", "terms", "index"} else name)
