"""The requirements on a Redis server: checked at the first use, reported in full by ``distq check``."""

import hashlib
import logging
import ssl
from collections.abc import Callable, Iterator
from typing import Any

from redis.exceptions import MovedError

from distq.errors import ConfigError, DistqError, RedisError, RedisRefused, RedisUnavailable
from distq.redisio.address import Address
from distq.redisio.diagnosis import a_sentinel
from distq.redisio.keys import queues_key

Execute = Callable[..., Any]

_logger = logging.getLogger("distq.redis")
_NOTHING = "return 1"
_NOTHING_SHA = hashlib.sha1(_NOTHING.encode(), usedforsecurity=False).hexdigest()
_NEARLY_FULL = 0.9
_OLDEST = {"redis": (6, 2), "valkey": (7, 2)}


def enforce(execute: Execute, address: Address) -> None:
    """Raise ConfigError if a server accepts no writes, or loses or evicts data; warn of TLS in name only."""
    if unverified := _unverified(address):
        _logger.warning("%s", unverified)
    try:
        info = _info(execute)
    except RedisRefused as error:
        if "denied" not in str(error):  # a server that hides its settings is used nevertheless
            raise
        _logger.warning("cannot check Redis: %s", error)
        return
    if unfit := _unfit(info, execute, address):
        raise ConfigError(unfit)
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
    """Return one line per finding, which begins with ``OK``, ``WARN`` or ``FAIL``."""
    try:
        info = _info(execute)
        if unfit := _unfit(info, execute, address):
            return [f"FAIL  {unfit}"]
    except DistqError as error:
        return [f"FAIL  {error}"]
    return [*_of_server(info, address), *_of_permissions(execute, address)]


def _unfit(info: dict[str, str], execute: Execute, address: Address) -> str | None:
    """Return why no queue can use such a server, None if a queue can."""
    if _mode(info) == "sentinel":
        return a_sentinel(address)
    if info.get("role") == "slave" and address.url.topology != "standalone":
        raise RedisUnavailable(
            f"Redis at {address.where} is a replica by now: a failover goes on. It may soon be over."
        )
    if info.get("role") == "slave":
        primary = f"{info.get('master_host')}:{info.get('master_port')}"
        return (
            f"Redis at {address.where} is a replica of {primary}: what is written here is refused or lost. "
            "Give the primary's address, or redis+sentinel://host:port/service."
        )
    is_one_node = _mode(info) == "cluster" and address.url.topology == "standalone"
    return _without_slot(execute, address) if is_one_node else None


def _without_slot(execute: Execute, address: Address) -> str | None:
    """Return the finding for a node of a cluster that does not serve the slot of our first key."""
    try:
        execute("HGET", queues_key(address.prefix), "")
    except RedisError as error:
        node, refusal = f"Redis at {address.where} is a node of a cluster", error.__context__
        if "slot not served" in str(refusal):
            return f"{node} without slots. Assign all slots to it, or use a standalone Redis."
        if isinstance(refusal, MovedError):
            return f"{node}, and other nodes have slots that are needed. Use redis+cluster://{address.where}."
    return None


def _unverified(address: Address) -> str | None:
    """Return the finding for a URL that accepts any certificate, None for other URLs."""
    if address.options.get("ssl_cert_reqs") not in {"none", ssl.CERT_NONE}:
        return None
    return (
        f"the certificate of Redis at {address.where} is not checked (ssl_cert_reqs=none): "
        "a man in the middle could read the password and all data. "
        "Set DISTQ_REDIS_CA_FILE to the certificate of its authority instead."
    )


def _mode(info: dict[str, str]) -> str:
    return info.get("redis_mode") or info.get("server_mode") or "standalone"


def _of_server(info: dict[str, str], address: Address) -> Iterator[str]:
    mode = _mode(info)
    if _new_enough(info):
        yield f"OK    {_product(info)} at {address.where}, {mode}"
    else:
        yield f"FAIL  {_product(info)} at {address.where} is too old. Use Redis 6.2, Valkey 7.2 or newer."
    policy = info.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        yield "OK    maxmemory-policy noeviction"
    else:
        yield f"FAIL  maxmemory-policy {policy} may evict work. Set noeviction."
    yield from _of_memory(info)
    if info.get("aof_enabled") == "1":
        yield "OK    appendonly yes"
    else:
        yield "WARN  appendonly is off: a restart loses what no informer can replay. Set appendonly yes."
    if unverified := _unverified(address):
        yield f"WARN  {unverified}"


def _of_memory(info: dict[str, str]) -> Iterator[str]:
    """Yield a finding if memory is full or nearly so, as the server itself counts it."""
    limit = int(info.get("maxmemory", 0))
    used = int(info.get("used_memory", 0)) - int(info.get("mem_not_counted_for_evict", 0))
    if limit and used >= limit:
        yield (
            f"FAIL  memory is full ({_mebibytes(used)} of maxmemory {_mebibytes(limit)}): adds are refused, "
            "and informers commit no event. Raise maxmemory, or find the queue that grows."
        )
    elif limit and used >= _NEARLY_FULL * limit:
        yield (
            f"WARN  memory is nearly full: {_mebibytes(used)} of maxmemory {_mebibytes(limit)}. "
            "A full Redis refuses adds. Raise maxmemory."
        )


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def _of_permissions(execute: Execute, address: Address) -> Iterator[str]:
    """Try the calls of workers, without their data: scripts by their hash, or else by their source."""
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
        yield (
            f'WARN  user "{user}" may not run CLIENT UNBLOCK: each idle wait costs a connection. '
            f"ACL SETUSER {user} +client|id +client|unblock"
        )


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
