"""The program that drives the originals, from Python: sequences of one queue each, in fake time."""

import json
import subprocess
from dataclasses import dataclass
from typing import Any, Self

from tests.go.oracle import MODULE

MICROSECOND = 1000
"""Go counts ns, we count µs."""


@dataclass(frozen=True)
class Claim:
    """What a Get of the original returned; ``latency`` in µs, as its metric reports it."""

    key: str
    priority: int
    shut_down: bool
    latency: int
    requeues: int


@dataclass(frozen=True)
class Answer:
    """What can be seen of the original after an operation; times in µs.

    ``waiting``: a Get is blocked. ``claim``: what this or an earlier one returned. ``delay``: the
    limiter's last, may have a fraction. ``elapsed``: since the sequence began.
    """

    length: int
    waiting: bool
    draining: bool
    shutting_down: bool
    claim: Claim | None
    requeues: int
    delay: float
    elapsed: int
    figures: dict[str, dict[str, float]] | None  # what the metrics say, where that is asked for
    error: str


class Original:
    """The running program; one sequence at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [MODULE.cached() / "oracle", "-test.run=^TestOracle$"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def begin(self, queue: str, limiter: str) -> Answer:
        """Begin a sequence with a ``workqueue`` or a ``priorityqueue``; ``limiter`` is a program."""
        if self._open:  # a failure has not ended it
            self.end()
        self._open = True
        return self._ask(op="begin", queue=queue, limiter=limiter)

    def do(
        self, op: str, *keys: str, duration: int = 0, limited: bool = False, priority: int | None = None
    ) -> Answer:
        """Run an operation, ``duration`` in µs; return once the queue has settled."""
        return self._ask(
            op=op, keys=keys, duration=duration * MICROSECOND, limited=limited, priority=priority or 0
        )

    def end(self) -> None:
        """Shut the queue down and end the sequence."""
        self._ask(op="end")
        self._open = False

    def _ask(self, **command: Any) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line.startswith(b"{"), f"the oracle died: {line.decode()}"
        return _answer(json.loads(line))


def _answer(said: dict[str, Any]) -> Answer:
    claim = said["claim"]
    return Answer(
        length=said["len"],
        waiting=said["waiting"],
        draining=said["draining"],
        shutting_down=said["shutting_down"],
        claim=claim and Claim(**{**claim, "latency": round(claim["latency"] / MICROSECOND)}),
        requeues=said["requeues"],
        delay=said["delay"] / MICROSECOND,
        elapsed=said["elapsed"] // MICROSECOND,
        figures=said["figures"],
        error=said["error"],
    )
