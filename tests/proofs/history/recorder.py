"""Reads the trace of a queue while it is written, and keeps what a Redis that goes back would take away."""

from collections.abc import Sequence

from distq.redisio import scripts
from distq.redisio.connection import Argument
from distq.redisio.queue_store import QueueStore
from distq.redisio.trace import TracedCall, switch_off
from tests.proofs.history.records import Segment
from tests.workqueue.redis_state import READS, RedisState

_CENTURY = 100 * 365 * 86400 * 1_000_000
_SWITCH_ON: dict[str, int | str] = {"duration": _CENTURY, "kept": 0, "match": ""}
_SWITCH_ON |= {"limit": 10_000_000, "longest": 2**30, "max_bytes": 2**40}

Line = tuple[bytes, bytes]
"""The id of an entry and its text."""


class Recorder:
    """The trace of one queue, on while it records."""

    def __init__(self, store: QueueStore) -> None:
        self.store = store
        self._segments: list[Segment] = []
        self._lines: list[Line] = []
        """Of the present segment, what was read."""

    def start(self) -> None:
        """Begin a segment: switch the trace on and copy all of the queue, in one step.

        Call it again where something else than distq changed the queue.
        """
        script = scripts.load("trace")
        connection, store = self.store.connection, self.store
        connection.execute("SCRIPT", "LOAD", script.source)
        inputs = _SWITCH_ON | {"time": connection.server_time}
        switch_on = ("EVALSHA", script.sha, *script.bind(store.key, inputs))
        state, line = self._copy(switch_on)
        self._segments.append(Segment(state))
        self._lines = []
        self._append([line])

    def poll(self) -> None:
        """Read what is new; begin another segment where Redis went back, or the trace is gone.

        Raises RedisError: call again later.
        """
        last = self._lines[-1]
        (on,) = self.store.read(("HGET", "meta", "trace"))
        found = self._read(last[0].decode())
        if found and found[0] == last:
            self._append(found[1:])
            if not on:
                self.start()
        elif on and (kept := self._kept(whole := self._read("-"))):
            before = self._segments[-1]
            self._segments.append(Segment(before.start, before.entries[:kept], shared=kept))
            self._lines = self._lines[:kept]
            self._append(whole[whole.index(self._lines[-1]) + 1 :])
        else:
            self.start()

    def finish(self) -> list[Segment]:
        """Read the rest, copy the queue as it is then, switch the trace off, and return all segments.

        Raises RedisError: call again later.
        """
        state, line = self._copy()
        self.poll()
        switch_off(self.store)  # before anything changes here: the caller may have to try again
        segment = self._segments[-1]
        segment.entries = segment.entries[: self._lines.index(line) + 1]
        segment.final = state
        return self._segments

    def _copy(self, *before: Sequence[Argument]) -> tuple[RedisState, Line]:
        """Copy the queue, and the last entry of its trace, in one step with a command before."""
        last = ("XREVRANGE", "trace", "+", "-", "COUNT", 1)
        commands = [("MULTI",), *before, *self.store.commands(*READS, last), ("EXEC",)]
        *_, replies = self.store.connection.pipeline(commands)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        *reads, ((entry_id, fields),) = replies[len(before) :]
        return RedisState.of(reads), (entry_id, fields[1])

    def _kept(self, whole: list[Line]) -> int:
        """Return how many of the entries that were read are there still."""
        there = set(whole)
        return max((place for place, line in enumerate(self._lines, 1) if line in there), default=0)

    def _read(self, since: str) -> list[Line]:
        found: list[Line] = []
        while True:
            (page,) = self.store.read(("XRANGE", "trace", since, "+", "COUNT", 1000))
            found += [(entry_id, fields[1]) for entry_id, fields in page]
            if len(page) < 1000:
                return found
            since = f"({page[-1][0].decode()}"

    def _append(self, lines: list[Line]) -> None:
        self._lines += lines
        self._segments[-1].entries += [TracedCall.parse(*line) for line in lines]
