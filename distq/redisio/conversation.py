"""Commands on one connection, and their replies: all are read, even if some are errors."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import redis
from hiredis import pack_command
from redis.connection import AbstractConnection

from distq.redisio import wrong_type
from distq.redisio.error_mapping import concerns_one_key
from distq.redisio.kernel_timeout import wait_in_kernel, wait_in_python

_Word = str | bytes | int | float
_NUMBERS = {int, float}

Meanwhile = Callable[[], None] | None
"""Called while the server works, if given; perhaps repeatedly, since a script may be sent again."""

_PACKED_AT_ONCE = 128
"""Words."""

_LONGEST_PIECE = 64 * 1024
"""Bytes, about: the system gives and takes the memory of more page by page, at a cost."""

_LARGE = 16 * 1024
"""Bytes; more may have to wait until the server has read some of them: see ``wait_in_python``."""


def converse(
    connection: AbstractConnection,
    commands: Sequence[Sequence[_Word]],
    *,
    asking: bool = False,
    meanwhile: Meanwhile = None,
) -> list[Any]:
    """Send commands and return their replies; a refusal about one key is returned as a reply.

    ``asking`` is for a node that is about to take over their slot. ``meanwhile`` is called while the server
    works; its error breaks the conversation off.
    """
    prefixed = [part for command in commands for part in (("ASKING",), command)] if asking else commands
    try:
        if prefixed[1:]:  # redis-py would send each alone, and the server would wake up for each
            packed = [b"".join(chain.from_iterable(map(_packed, prefixed)))]
        else:
            packed = _packed(prefixed[0])
    except UnicodeEncodeError as error:  # a lone surrogate: Python reads a bad byte as one
        raise redis.DataError(f"{error.object!r:.80} is no text that UTF-8 can hold") from None
    except TypeError:
        odd = [word for command in commands for word in command if not isinstance(word, _Word)]
        raise redis.DataError(f"{odd!r:.80} is neither text nor a number") from None
    is_large = len(packed[0]) > _LARGE
    if is_large:
        wait_in_python(connection)
    connection.send_packed_command(packed, check_health=connection.health_check_interval > 0)
    if is_large:
        wait_in_kernel(connection)
    if meanwhile is not None:
        meanwhile()
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

    # only now that all replies are read: it asks on the same connection
    def ask(*command: _Word) -> Any:
        return without_refusal(converse(connection, [command]))[0]

    return [
        wrong_type.with_key(reply, command, ask) if isinstance(reply, redis.ResponseError) else reply
        for reply, command in zip(replies, commands, strict=True)
    ]


def _packed(command: Sequence[_Word]) -> list[bytes]:
    # packed by hiredis directly: redis-py would check each word before
    words = tuple(command)
    if not _NUMBERS.isdisjoint(map(type, words)):
        # give hiredis no numbers: if a signal handler raises while it packs one, the process crashes
        words = tuple([f"{word!r}" if type(word) in _NUMBERS else word for word in words])
    if not words[_PACKED_AT_ONCE:]:
        return [pack_command(words)]  # type: ignore[arg-type]  # its stub knows tuples of one word alone
    return list(_pieces(words))


def _pieces(words: Sequence[_Word]) -> Iterator[bytes]:
    piece = b"*%d\r\n" % len(words)
    for first in range(0, len(words), _PACKED_AT_ONCE):
        packed: bytes = pack_command(words[first : first + _PACKED_AT_ONCE])  # type: ignore[arg-type]
        piece += packed[packed.index(b"\n") + 1 :]
        if len(piece) > _LONGEST_PIECE:
            yield piece
            piece = b""
    if piece:
        yield piece


def without_refusal(replies: list[Any]) -> list[Any]:
    """Return the replies; raise the first refusal among them."""
    for reply in replies:
        if isinstance(reply, redis.ResponseError):
            raise reply
    return replies
