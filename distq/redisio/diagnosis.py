"""Finds why the first use of an address failed, by one more connection to it.

Silence and a closed connection have several causes that look the same to redis-py. One more connection
distinguishes them, so that the message names the cause; it sends no password.
"""

import contextlib
import socket
import ssl
from collections.abc import Iterator

import redis
from redis.connection import SSLConnection

from distq.errors import ConfigError, DistqError, RedisError, RedisUnavailable
from distq.redisio.address import Address
from distq.redisio.kernel_timeout import is_silence
from distq.redisio.pool import ask_once
from distq.redisio.redis_url import shown

SILENCE_TIMEOUT = 3.0
"""Seconds until the first use reports a server that accepts a connection and does not answer."""

_PROBE = 1.0
"""Seconds that each test here may take."""

_NO_SUCH_DATABASE = ("DB index is out of range", "SELECT is not allowed in cluster mode")


def explain(error: RedisError, address: Address) -> DistqError:
    """Return an error that names the cause if it can be found, otherwise the error itself."""
    raised = str(error.__context__)
    if any(words in raised for words in _NO_SUCH_DATABASE):
        return _no_such_database(address, raised)
    if "unknown command" in raised and "SELECT" in raised:  # only a Sentinel has no SELECT
        return ConfigError(a_sentinel(address))
    if not isinstance(error, RedisUnavailable) or "path" in address.options:  # no TLS at a socket
        return error
    kind = "" if address.url.topology == "standalone" else f"+{address.url.topology}"
    place = shown(address.places[:1])
    encrypted = issubclass(address.options["connection_class"], SSLConnection)
    if encrypted and _speaks_plainly(address):
        return ConfigError(f"no TLS at {place}: that port answers without it. Use redis{kind}:// there.")
    # a server that waits for TLS closes the connection instead
    silent = is_silence(error.__context__)
    if not encrypted and not silent and _speaks_tls(address):
        return ConfigError(f"TLS only at {place}: that port takes nothing else. Use rediss{kind}:// there.")
    return error


def a_sentinel(address: Address) -> str:
    """Return the message for a Sentinel at the address of a Redis."""
    return (
        f"Redis at {address.where} is a Sentinel: it keeps no data. "
        "Give the address of the primary that it watches, or redis+sentinel://host:port/service."
    )


def _no_such_database(address: Address, raised: str) -> ConfigError:
    count = 1 if "cluster" in raised else _database_count(address)
    what = f"no database {address.options.get('db')} at {address.where}"
    if count is None:
        return ConfigError(f"{what}: this server has fewer. Use database 0.")
    has = f"this server has {count} database{'' if count == 1 else 's'}"
    return ConfigError(f"{what}: {has}. Use {f'one from 0 to {count - 1}' if count > 1 else 'database 0'}.")


def _database_count(address: Address) -> int | None:
    """Return how many databases the server has; None if our user may not read that."""
    connection = address.connection(_PROBE, database="")  # without a SELECT, which would fail again
    try:
        return int(ask_once(connection, "CONFIG", "GET", "databases")[1])
    except (redis.RedisError, OSError, IndexError, ValueError):
        return None


def _speaks_plainly(address: Address) -> bool:
    """Return whether the port answers a PING, or refuses it, without TLS."""
    with contextlib.suppress(OSError), _connected(address) as plain:
        plain.sendall(b"PING\r\n")
        return plain.recv(1) in {b"+", b"-"}
    return False


def _speaks_tls(address: Address) -> bool:
    """Return whether the port completes a TLS handshake, with any certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent
    with contextlib.suppress(OSError), _connected(address) as plain, context.wrap_socket(plain):
        return True
    return False


@contextlib.contextmanager
def _connected(address: Address) -> Iterator[socket.socket]:
    options = address.options
    where = (options.get("host", "localhost"), options.get("port", 6379))
    with socket.create_connection(where, timeout=_PROBE) as plain:
        yield plain
