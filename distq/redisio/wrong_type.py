"""The key of a WRONGTYPE error: Redis does not name it, and a script has a dozen keys."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import redis

from distq.redisio.keys import type_of

_SCRIPTS = {"EVAL", "EVALSHA"}
_TYPE = re.compile(r"WRONGTYPE (string|list|set|zset|hash|stream)\b")
_MESSAGE = re.compile(r"WRONGTYPE (.+) is a \w+, where ")


def with_key(
    error: redis.ResponseError, command: Sequence[Any], execute: Callable[..., Any]
) -> redis.ResponseError:
    """Return a command's error, with the name and types of the key if they can be found."""
    if "WRONGTYPE" not in str(error):
        return error
    keys = command[3 : 3 + int(command[2])] if command[0] in _SCRIPTS else command[1:2]
    for key in keys:
        try:
            found = execute("TYPE", key).decode()
        except redis.ResponseError:  # this user may not call TYPE
            return error
        if found not in {"none", type_of(str(key))}:
            return type(error)(message(str(key), found))
    return error


def explain(reply: Any, command: Sequence[Any]) -> Any:
    """Return a reply of ``read/many``; if it is an error with only a type, name the key in it."""
    if not isinstance(reply, redis.ResponseError) or not (found := _TYPE.match(str(reply))):
        return reply
    return type(reply)(message(str(command[1]), found[1]))


def message(key: str, found: str) -> str:
    """Return the message for a key of the type ``found``."""
    return f"WRONGTYPE {key} is a {found}, where distq keeps a {type_of(key)}"


def remedy(text: str) -> str:
    """Return the command that fixes the error of such a message."""
    named = _MESSAGE.search(text)
    return f"Move it away: redis-cli RENAME {named[1]} {named[1]}.odd" if named else "RENAME that key"
