"""Commands on one connection, and their replies: all are read, whatever one of them says."""

from collections.abc import Sequence
from typing import Any

import redis
from hiredis import pack_command
from redis.connection import AbstractConnection

from distq.redisio import wrong_type
from distq.redisio.error_mapping import concerns_one_key

_Word = str | bytes | int | float
_NUMBERS = {int, float}


def converse(
    connection: AbstractConnection, commands: Sequence[Sequence[_Word]], *, asking: bool = False
) -> list[Any]:
    """Send commands and return their replies, a refusal that concerns one key among them.

    ``asking`` is for a node that is about to get their slot.
    """
    prefixed = [part for command in commands for part in (("ASKING",), command)] if asking else commands
    try:
        packed = list(map(_packed, prefixed))
    except UnicodeEncodeError as error:  # half of a surrogate pair, as an argument that is no UTF-8 becomes
        raise redis.DataError(f"{error.object!r:.80} is no text that UTF-8 can hold") from None
    connection.send_packed_command(packed)
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
    """Return a command as it is sent: by hiredis itself, for redis-py looks at each word on its way there."""
    # where a signal's handler raises while hiredis packs a number, as on Ctrl-C, the process crashes
    words = tuple([repr(word) if type(word) in _NUMBERS else word for word in command])
    packed: bytes = pack_command(words)  # type: ignore[arg-type]  # its stub knows tuples of one word alone
    return packed


def without_refusal(replies: list[Any]) -> list[Any]:
    """Return the replies; raise the first refusal among them."""
    for reply in replies:
        if isinstance(reply, redis.ResponseError):
            raise reply
    return replies
