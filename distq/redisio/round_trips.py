"""Reads that share round trips, as ``asyncio`` lets coroutines share a thread.

A read is a generator: it yields the commands of one round trip, receives their replies, and at its end
returns what they mean. So it is written as if it ran alone, and the reads of a hundred queues cost as many
round trips as those of one.
"""

from collections.abc import Generator, Iterable, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

from distq.redisio.connection import Argument

T = TypeVar("T")

Command = Sequence[Argument]
Read = Generator[Sequence[Command], list[Any], T]


class Pipeline(Protocol):
    """What answers several commands in one round trip: a Connection, or Snapshots of one."""

    def pipeline(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies; raise the first error among them."""


def run(connection: Pipeline, read: Read[T]) -> T:
    """Run a read and return its result; raise RedisError, and what the read raises."""
    try:
        commands = next(read)
        while True:
            commands = read.send(connection.pipeline(commands) if commands else [])
    except StopIteration as end:
        result: T = end.value
        return result


def gather(reads: Iterable[Read[T]]) -> Read[list[T]]:
    """Run reads side by side and return their results in order; each round trip carries what all ask next."""
    begun = list(reads)
    results: dict[int, T] = {}
    replies: dict[int, list[Any] | None] = dict.fromkeys(range(len(begun)))
    while replies:
        asked: dict[int, Sequence[Command]] = {}
        for place, received in replies.items():
            try:
                asked[place] = next(begun[place]) if received is None else begun[place].send(received)
            except StopIteration as end:
                results[place] = end.value
        answers = iter((yield [command for commands in asked.values() for command in commands]))
        replies = {place: list(islice(answers, len(commands))) for place, commands in asked.items()}
    return [results[place] for place in range(len(begun))]
