"""What distq requires of a Redis server: checked at the first use, reported in full by ``distq check``."""

import hashlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

from distq.errors import ConfigError, DistqError, RedisError, RedisRefused
from distq.redisio.address import Address

Execute = Callable[..., Any]

_logger = logging.getLogger("distq.redis")
_NOTHING = "return 1"
_NOTHING_SHA = hashlib.sha1(_NOTHING.encode(), usedforsecurity=False).hexdigest()
_OLDEST = {"redis": (6, 2), "valkey": (7, 2)}


def enforce(execute: Execute, address: Address) -> None:
    """Raise ConfigError for a server that would lose or evict work."""
    try:
        info = _info(execute)
    except RedisRefused as error:
        if "denied" not in str(error):
            raise
        _logger.warning("cannot check Redis: %s", error)
        return
    if not _new_enough(info):
        raise ConfigError(
            f"Redis at {address.where} is too old: {_product(info)}. Use Redis 6.2, Valkey 7.2 or newer."
        )
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise ConfigError(
            f"Redis at {address.where} may evict work: maxmemory-policy {policy}. Set noeviction."
        )


def findings(execute: Execute, address: Address) -> list[str]:
    """Return one line a finding, ``OK``, ``WARN`` or ``FAIL`` first."""
    try:
        info = _info(execute)
    except DistqError as error:
        return [f"FAIL  {error}"]
    return [*_of_server(info, address), *_of_permissions(execute, address)]


def _of_server(info: dict[str, str], address: Address) -> Iterator[str]:
    mode = info.get("redis_mode", "standalone")
    if _new_enough(info):
        yield f"OK    {_product(info)} at {address.where}, {mode}"
    else:
        yield f"FAIL  {_product(info)} at {address.where} is too old. Use Redis 6.2, Valkey 7.2 or newer."
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        yield "OK    maxmemory-policy noeviction"
    else:
        yield f"FAIL  maxmemory-policy {policy} may evict work. Set noeviction."
    if info.get("aof_enabled") == "1":
        yield "OK    appendonly yes"
    else:
        yield "WARN  appendonly is off: a restart loses what no informer can replay. Set appendonly yes."


def _of_permissions(execute: Execute, address: Address) -> Iterator[str]:
    """Try what the workers do, on no data of theirs: scripts by their hash, or else sent whole."""
    by_hash = _may(execute, "SCRIPT", "LOAD", _NOTHING) and _may(execute, "EVALSHA", _NOTHING_SHA, 0)
    if by_hash or _may(execute, "EVAL", _NOTHING, 0):
        yield f'OK    user "{address.user}" may run scripts'
    else:
        rules = "+evalsha +script|load"
        yield f'FAIL  user "{address.user}" may not run scripts. ACL SETUSER {address.user} {rules}'
    if _may(execute, "CLIENT", "UNBLOCK", 0):
        yield f'OK    user "{address.user}" may run CLIENT UNBLOCK'
    else:
        user = address.user
        yield f'FAIL  user "{user}" may not run CLIENT UNBLOCK. ACL SETUSER {user} +client|id +client|unblock'


def _may(execute: Execute, *attempt: str | int) -> bool:
    try:
        execute(*attempt)
    except RedisError:
        return False
    return True


def _info(execute: Execute) -> dict[str, str]:
    lines = bytes(execute("INFO")).decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _product(info: dict[str, str]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info.get('redis_version', '?')}"


def _new_enough(info: dict[str, str]) -> bool:
    product, version = _product(info).lower().split(" ")
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= _OLDEST[product]
