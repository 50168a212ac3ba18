"""Reads that share round trips, as ``asyncio`` lets coroutines share a thread.

A read is a generator: it yields the commands of one round trip, receives their replies, and finally returns
its result. So its code looks as if it ran alone, and the reads of a hundred queues take as many round trips
as those of one.
"""

from collections.abc import Generator, Iterable, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

from distq.errors import RedisRefused
from distq.redisio.connection import Argument

T = TypeVar("T")

Command = Sequence[Argument]
Read = Generator[Sequence[Command], list[Any], T]


class Pipeline(Protocol):
    """An object that runs several commands in one round trip: a Connection, or Snapshots of one."""

    def pipeline(self, commands: Sequence[Command], *, keep_refusals: bool = False) -> list[Any]:
        """Return the replies; raise the first error among them.

        With ``keep_refusals`` an error of a single command is returned in its place, as a RedisRefused.
        """


class _Shared(list[Command]):
    """The commands of several reads, which handle their refusals themselves."""


def run(connection: Pipeline, read: Read[T]) -> T:
    """Run a read and return its result; raise RedisError, and the errors of the read."""
    try:
        commands = next(read)
        while True:
            commands = _go_on(read, commands, _replies(connection, commands))
    except StopIteration as end:
        result: T = end.value
        return result


def _replies(connection: Pipeline, commands: Sequence[Command]) -> list[Any]:
    """Return the replies; equal commands of several reads, such as for the workers of a queue, run once."""
    if not commands:
        return []
    asked = list(dict.fromkeys(map(tuple, commands)))
    replies = dict(zip(asked, connection.pipeline(asked, keep_refusals=True), strict=True))
    return [replies[tuple(command)] for command in commands]


def gather(reads: Iterable[Read[T]]) -> Read[list[T]]:
    """Run reads side by side and return their results in order; each round trip has the next commands of all.

    A refusal is raised in the read that sent the command: if that read catches it, the others continue.
    """
    begun = list(reads)
    results: dict[int, T] = {}
    answered: dict[int, tuple[Sequence[Command], list[Any]] | None] = dict.fromkeys(range(len(begun)))
    while answered:
        asked: dict[int, Sequence[Command]] = {}
        for place, answer in answered.items():
            try:
                asked[place] = next(begun[place]) if answer is None else _go_on(begun[place], *answer)
            except StopIteration as end:
                results[place] = end.value
        if not asked:
            break
        replies = iter((yield _Shared(command for commands in asked.values() for command in commands)))
        answered = {
            place: (commands, list(islice(replies, len(commands)))) for place, commands in asked.items()
        }
    return [results[place] for place in range(len(begun))]


def _go_on(read: Read[T], asked: Sequence[Command], replies: list[Any]) -> Sequence[Command]:
    """Send a read the replies to its commands, or raise the first refusal in it; return its next commands."""
    refused = next((reply for reply in replies if isinstance(reply, RedisRefused)), None)
    if refused is None or isinstance(asked, _Shared):
        return read.send(replies)
    return read.throw(refused)
