"""distq and the job queues of Python that it is measured beside, each behind the same four calls.

A module has a function ``connect(url, kind)`` that returns a Subject. Each is set up as its own documentation
says for speed, in one process, without results, which distq does not keep, either. ``benchmarks.player`` runs
them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

QUEUE = "benchmark"

Handle = Callable[[str], None]
"""What a worker calls for each key."""


class Subject(Protocol):
    """One queue, seen from a process that adds or works."""

    def add_each(self, keys: Iterable[str]) -> None:
        """Add keys one after another; each is in Redis before the next one is asked for."""

    def add_many(self, keys: Sequence[str], /) -> None:
        """Add keys by what the queue has for many; raise NoBulk where it has nothing."""

    def work(self, handle: Handle) -> None:
        """Call the function for each key, until the process ends."""


class NoBulk(Exception):
    """The queue has no call that adds many keys."""


@dataclass(frozen=True)
class Peer:
    """A package that distq is compared with."""

    package: str
    """What pip installs."""

    drain: int = 4_000
    """Items of one drain, so that it takes a second or two."""


PEERS = {
    "rq": Peer("rq", drain=1_000),
    "huey": Peer("huey"),
    "dramatiq": Peer("dramatiq"),
    "taskiq": Peer("taskiq-redis"),
    "saq": Peer("saq"),
    "celery": Peer("celery"),
    "arq": Peer("arq"),
    "streaq": Peer("streaq"),
}
