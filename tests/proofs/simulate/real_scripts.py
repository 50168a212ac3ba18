"""The scripts themselves, asked what a simulation asked of their specification: they must answer alike.

That is done when a schedule is at its end, in one round trip, so it costs little. And what is found of the
specification is true of the scripts on this server, call by call.
"""

import pickle
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import hiredis
import redis

from distq.redisio import scripts
from distq.redisio.connection import Argument, Connection
from distq.redisio.keys import queue_key
from tests.proofs.simulate.asked import Asked, Call, Look, Restored, Saved
from tests.proofs.simulate.violation import Violation
from tests.workqueue.redis_state import READS, RedisState, answer_of

Command = Sequence[Argument]

_QUEUE = "distq:"
_COPY = """
local call, from, to = redis.call, ARGV[1], ARGV[2]
for _, key in ipairs(call('KEYS', to .. '*')) do call('DEL', key) end
for _, key in ipairs(call('KEYS', from .. '*')) do call('COPY', key, to .. string.sub(key, #from + 1)) end
"""
"""Puts all of a queue aside by a name, or back."""


class RealScripts:
    """A server of this process's own that has the scripts."""

    def __init__(self, url: str) -> None:
        self._connection = Connection(url).dedicated()
        self._scripts = {name: scripts.load(name) for name in scripts.names()}
        sources = [*(script.source for script in self._scripts.values()), _COPY]
        *_, self._copy = self._ask([("SCRIPT", "LOAD", source) for source in sources])

    def compare(self, asked: Sequence[Asked]) -> None:
        """Ask all of this on an empty server; raise Violation where an answer or what is kept differs."""
        restored = {each.name for each in asked if isinstance(each, Restored)}
        relevant = [each for each in asked if not isinstance(each, Saved) or each.name in restored]
        commands = [list(self._commands(each)) for each in relevant]
        _, *replies = self._ask([("FLUSHDB",), *(one for some in commands for one in some)])
        left = iter(replies)
        for place, (each, some) in enumerate(zip(relevant, commands, strict=True)):
            _check(place, each, [next(left) for _ in some])

    def close(self) -> None:
        """Leave the server."""
        self._connection.disconnect()

    def _ask(self, commands: Sequence[Command]) -> list[Any]:
        """Return the reply to each command, an error where it is one; redis-py packs at twice the cost."""
        packed = [hiredis.pack_command((*each,)) for each in commands]  # type: ignore[arg-type]  # its own mistake
        self._connection.send_packed_command([b"".join(packed)])
        return [self._reply() for _ in commands]

    def _reply(self) -> Any:
        try:
            return self._connection.read_response()
        except redis.ResponseError as error:
            return error

    def _commands(self, asked: Asked) -> Iterator[Command]:
        match asked:
            case Call():
                script = self._scripts[asked.script]
                inputs = {"time": asked.time} if "time" in script.arguments else {}
                yield "EVALSHA", script.sha, *script.bind(_key, asked.inputs | inputs)
            case Saved(name=name):
                yield "EVALSHA", self._copy, 0, _QUEUE, f"{name}:"
            case Restored(name=name):
                yield "EVALSHA", self._copy, 0, f"{name}:", _QUEUE
            case Look():
                yield from ((command, _key(str(name)), *rest) for command, name, *rest in READS)


@cache
def _key(name: str) -> str:
    return queue_key("foos", name)


def _check(place: int, asked: Asked, replies: Sequence[Any]) -> None:
    if isinstance(asked, Call) and not _are_alike(asked, replies[0]):
        raise Violation("the scripts answer alike", f"call {place}, {asked}: the script {replies[0]}")
    if isinstance(asked, Look):
        redis = RedisState.of(replies)
        try:
            redis.check()
            redis.compare(pickle.loads(asked.state))  # noqa: S301 - our own
        except AssertionError as error:
            raise Violation("the scripts do alike", f"before call {place}: {error}") from None


def _are_alike(call: Call, reply: Any) -> bool:
    if call.script == "turn" and isinstance(reply, list) and isinstance(call.reply, list):
        return answer_of(reply) == answer_of(call.reply)  # how long to wait is not specified
    return bool(reply == call.reply)
