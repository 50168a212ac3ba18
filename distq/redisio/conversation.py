"""Commands on one connection, and their replies: all are read, even if some are errors."""

from collections.abc import Sequence
from typing import Any

import redis
from hiredis import pack_command
from redis.connection import AbstractConnection

from distq.redisio import wrong_type
from distq.redisio.error_mapping import concerns_one_key
from distq.redisio.kernel_timeout import wait_in_kernel, wait_in_python

_Word = str | bytes | int | float
_NUMBERS = {int, float}

_LARGE = 16 * 1024
"""Bytes; more may have to wait until the server has read some of them."""


def converse(
    connection: AbstractConnection, commands: Sequence[Sequence[_Word]], *, asking: bool = False
) -> list[Any]:
    """Send commands and return their replies; a refusal about one key is returned as a reply.

    ``asking`` is for a node that is about to take over their slot.
    """
    prefixed = [part for command in commands for part in (("ASKING",), command)] if asking else commands
    try:
        packed = list(map(_packed, prefixed))
    except UnicodeEncodeError as error:  # a lone surrogate: Python reads a bad byte as one
        raise redis.DataError(f"{error.object!r:.80} is no text that UTF-8 can hold") from None
    except TypeError:
        odd = [word for command in commands for word in command if not isinstance(word, _Word)]
        raise redis.DataError(f"{odd!r:.80} is neither text nor a number") from None
    if packed[1:]:  # redis-py would send each alone, and the server would wake up for each
        packed = [b"".join(packed)]
    is_large = len(packed[0]) > _LARGE
    if is_large:
        wait_in_python(connection)
    connection.send_packed_command(packed, check_health=connection.health_check_interval > 0)
    if is_large:
        wait_in_kernel(connection)
    replies: list[Any] = []
    refusal, of_one_key = None, False
    for _ in commands:
        try:
            if asking:
                connection.read_response()
            replies.append(connection.read_response())
        except redis.ResponseError as error:
            replies.append(error)
            if concerns_one_key(error):
                of_one_key = True
            else:
                refusal = refusal or error
    if refusal:
        raise refusal
    if not of_one_key:
        return replies

    def ask(*command: _Word) -> Any:
        return without_refusal(converse(connection, [command]))[0]

    return [
        wrong_type.with_key(reply, command, ask) if isinstance(reply, redis.ResponseError) else reply
        for reply, command in zip(replies, commands, strict=True)
    ]


def _packed(command: Sequence[_Word]) -> bytes:
    """Return the bytes of a command, packed by hiredis directly: redis-py would check each word before."""
    words = tuple(command)
    if not _NUMBERS.isdisjoint(map(type, words)):
        # give hiredis no numbers: if a signal handler raises while it packs one, the process crashes
        words = tuple([f"{word!r}" if type(word) in _NUMBERS else word for word in words])
    packed: bytes = pack_command(words)  # type: ignore[arg-type]  # its stub knows tuples of one word alone
    return packed


def without_refusal(replies: list[Any]) -> list[Any]:
    """Return the replies; raise the first refusal among them."""
    for reply in replies:
        if isinstance(reply, redis.ResponseError):
            raise reply
    return replies
