"""A process's connection to Redis, on which the schedule's faults befall scripts."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from distq.errors import RedisUnavailable
from distq.redisio.connection import Argument
from distq.redisio.conversation import Meanwhile
from tests.proofs.simulate.asked import Inputs
from tests.proofs.simulate.model_redis import unbound
from tests.proofs.simulate.stepped_thread import ProcessKilled

Script = Callable[[str, str, Inputs], Any]
"""Runs a script for a process, by name."""


class FaultyLine:
    """In place of a ``redisio.Connection``; the next script meets with the first of ``faults``.

    Its reply is ``lost``, it is ``refused``, it arrives ``twice``, a copy of it arrives much later, as a
    ``ghost``, or its process is ``killed before`` or ``killed after`` it.
    """

    prefix = "distq"
    server_time = 0
    address = "model"

    def __init__(
        self,
        process: str,
        run: Script,
        read: Callable[..., Any],
        now: Callable[[], float],
        *,
        ghosts: deque[tuple[str, Inputs]],
        before_each: Callable[[], None],
    ) -> None:
        self.process = process
        self.faults: deque[str] = deque()
        self.now = now
        self.dead = False
        self._ghosts = ghosts
        self._run = run
        self._read = read
        self._before_each = before_each

    def evaluate(self, source: str, sha: str, arguments: Sequence[Argument], *meanwhile: Meanwhile) -> Any:
        """Run a script, or meet with a fault."""
        self._before_each()
        if self.dead:
            raise ProcessKilled
        name, inputs = unbound(sha, arguments)
        fault = self.faults.popleft() if self.faults else ""
        match fault:
            case "refused":
                raise RedisUnavailable("connection refused")
            case "killed before":
                self._die()
            case "ghost":
                self._ghosts.append((name, inputs))
            case "twice":
                self._run(self.process, name, inputs)
        reply = self._run(self.process, name, inputs)
        if fault == "killed after":
            self._die()
        if fault == "lost":
            raise RedisUnavailable("the connection broke off")
        return reply

    def answer_much_later(self, sha: str, arguments: Sequence[Argument]) -> None:
        """Let a script run when its process reads no reply any more."""
        self._ghosts.append(unbound(sha, arguments))

    def call_of(self, source: str, sha: str, arguments: Sequence[Argument]) -> Sequence[Argument]:
        """Return the command that runs a script."""
        del source
        return ("EVALSHA", sha, *arguments)

    def pipeline(self, commands: Sequence[Sequence[Argument]], *, keep_refusals: bool = False) -> list[Any]:
        """Answer reads."""
        return [self._read(*command) for command in commands]

    def execute(self, command: str, *arguments: Argument) -> Any:
        """Answer about the queue's registration."""
        return 1

    def with_timeout(self, timeout: float, *, repeats: bool = False) -> "FaultyLine":
        """Return itself: no call takes time here."""
        return self

    def close(self) -> None:
        """Do nothing."""

    def _die(self) -> None:
        self.dead = True
        raise ProcessKilled
