"""Reads that see one moment: all reads of one round trip are one command, a script that runs them.

So all values on a page are of the same moment, and a page of any size costs a busy server a few commands.
Redis checks each read of the script as if the caller had sent it: a user with read permissions only cannot
change data.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from distq.errors import RedisError, RedisRefused
from distq.redisio import scripts, wrong_type
from distq.redisio.connection import Argument, Connection
from distq.redisio.error_mapping import concerns_one_key, is_denied
from distq.redisio.limits import READS_AT_ONCE


class Snapshots:
    """A Connection for reads only; if scripts are not permitted, or in a cluster, it only pipelines."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._by_script = not connection.is_cluster  # the keys of a script have to be on one node

    def pipeline(self, commands: Sequence[Sequence[Argument]], *, keep_refusals: bool = False) -> list[Any]:
        """Return the replies; each thousand of them is as of one moment. Raises RedisError.

        ``keep_refusals`` as for a Connection.
        """
        if self._by_script:
            try:
                return self._at_once(commands, keep_refusals=keep_refusals)
            except RedisRefused as error:
                if not is_denied(error):
                    raise
                self._by_script = False  # the user was made for a distq that read without a script
        return self._connection.pipeline(commands, keep_refusals=keep_refusals)

    def _at_once(self, commands: Sequence[Sequence[Argument]], *, keep_refusals: bool) -> list[Any]:
        starts = range(0, len(commands), READS_AT_ONCE)
        parts = (self._one_script(commands[start : start + READS_AT_ONCE]) for start in starts)
        replies = list(chain.from_iterable(parts))
        for reply in replies:
            if isinstance(reply, RedisError) and not (keep_refusals and concerns_one_key(reply.__context__)):
                raise reply
        return replies

    def _one_script(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        script = scripts.load("read/many")
        keys = list(dict.fromkeys(command[1] for command in commands if len(command) > 1))
        words = chain.from_iterable((len(command), *command) for command in commands)
        replies = self._connection.evaluate(script.source, script.sha, [len(keys), *keys, *words])
        named = (wrong_type.explain(reply, command) for reply, command in zip(replies, commands, strict=True))
        return self._connection.typed(list(named))
