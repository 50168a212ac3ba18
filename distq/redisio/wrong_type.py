"""Which key a WRONGTYPE is about: Redis does not say, and a script has a dozen of them."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import redis

from distq.redisio.keys import type_of

_SCRIPTS = {"EVAL", "EVALSHA"}
_TYPE = re.compile(r"WRONGTYPE (string|list|set|zset|hash|stream)\b")
_SAID = re.compile(r"WRONGTYPE (.+) is a \w+, where ")


def with_key(
    error: redis.ResponseError, command: Sequence[Any], execute: Callable[..., Any]
) -> redis.ResponseError:
    """Return the error that a command met, with the name of the key where it can be found, and its types."""
    if "WRONGTYPE" not in str(error):
        return error
    keys = command[3 : 3 + int(command[2])] if command[0] in _SCRIPTS else command[1:2]
    for key in keys:
        try:
            found = execute("TYPE", key).decode()
        except redis.ResponseError:  # who may not ask
            return error
        if found not in {"none", type_of(str(key))}:
            return type(error)(said(str(key), found))
    return error


def told(reply: Any, command: Sequence[Any]) -> Any:
    """Return a reply of ``read/many``; of one that says but a type, the error with the name of its key."""
    if not isinstance(reply, redis.ResponseError) or not (found := _TYPE.match(str(reply))):
        return reply
    return type(reply)(said(str(command[1]), found[1]))


def said(key: str, found: str) -> str:
    """Return what to say of a key of the type ``found``."""
    return f"WRONGTYPE {key} is a {found}, where distq keeps a {type_of(key)}"


def remedy(text: str) -> str:
    """Return the command that mends what was said so."""
    named = _SAID.search(text)
    return f"Move it away: redis-cli RENAME {named[1]} {named[1]}.odd" if named else "RENAME that key"
