"""Which key a WRONGTYPE is about: Redis does not say, and a script has a dozen of them."""

from collections.abc import Callable, Sequence
from typing import Any

import redis

from distq.redisio.keys import type_of

_SCRIPTS = {"EVAL", "EVALSHA"}


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
            return type(error)(f"WRONGTYPE {key} is a {found}, where distq keeps a {type_of(str(key))}")
    return error
