"""The parts of a URL of Redis: one server, a primary that Sentinels know, or a cluster."""

import re
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.connection import ConnectionPool
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisError

from distq.errors import ConfigError

Place = tuple[str, int]
"""Host and port."""


class UnknownPlace(NotConnected):
    """No Sentinel named a primary, or no node the slots; ``refused`` if another try cannot help."""

    def __init__(self, message: str, *, refused: bool) -> None:
        super().__init__(message)
        self.refused = refused


SCHEMES = "redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster or rediss+cluster"
_MANY = re.compile(
    r"(?P<scheme>rediss?)\+(?P<topology>sentinel|cluster)://"
    r"(?P<login>[^/?#]*@)?(?P<hosts>[^@/?#]+)(?P<path>/[^@?#]*)?(?P<query>\?[^@#]*)?"
)
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:]+))(?::(\d{1,5}))?")
_PORTS = {"sentinel": 26379, "cluster": 6379}
_SHAPES = {
    "standalone": "redis://user:password@host:port/database",
    "sentinel": "redis+sentinel://user:password@host:port,host:port/service/database",
    "cluster": "redis+cluster://user:password@host:port,host:port",
}


@dataclass(frozen=True)
class RedisUrl:
    """The parts of a URL; ``places`` are Sentinels, nodes of a cluster, or the one server; empty for a
    socket.

    ``options`` are redis-py's options, for a connection to the first place.
    """

    topology: Literal["standalone", "sentinel", "cluster"]
    places: tuple[Place, ...]
    service: str
    options: dict[str, Any]

    @classmethod
    def parse(cls, url: str, name: str) -> "RedisUrl":
        """Read a URL that messages call ``name``; raise ConfigError for one that cannot work."""
        scheme, separator, _ = url.partition("://")
        scheme = scheme if re.fullmatch(r"[a-z+]{1,16}", scheme) else ""  # it may be half a password
        if not separator:
            raise ConfigError(f"bad {name}: no scheme. Begin it with redis:// or rediss://.")
        if scheme not in re.split(", | or ", SCHEMES):
            raise ConfigError(f'bad {name}: unknown scheme "{scheme}". Use {SCHEMES}.')
        topology = scheme.partition("+")[2] or "standalone"
        try:
            return cls._one(url) if topology == "standalone" else cls._many(url)
        except (ValueError, TypeError, KeyError, RedisError):  # its text may quote a password
            raise ConfigError(
                f"bad {name}: its port, database or options make no sense. "
                f"Use {_SHAPES[topology]}, special characters percent-encoded."
            ) from None

    @classmethod
    def _one(cls, url: str) -> "RedisUrl":
        options = _options(url)
        place = (options.get("host", "localhost"), options.get("port", 6379))
        return cls("standalone", () if "path" in options else (place,), "", options)

    @classmethod
    def _many(cls, url: str) -> "RedisUrl":
        parts = _MANY.fullmatch(url)
        if parts is None:
            raise ValueError("no list of hosts")
        topology: Literal["sentinel", "cluster"] = parts["topology"]  # type: ignore[assignment]
        places = tuple(_place(host, _PORTS[topology]) for host in parts["hosts"].split(","))
        path = (parts["path"] or "").strip("/").split("/")
        service = unquote(path.pop(0)) if topology == "sentinel" else ""
        database = int("/".join(path) or 0)
        if (topology == "sentinel") != bool(service) or (topology == "cluster" and database):
            raise ValueError("no service, or a database that a cluster does not have")
        login, query = parts["login"] or "", parts["query"] or ""
        options = _options(f"{parts['scheme']}://{login}host/{database}{query}")
        return cls(topology, places, service, options | dict(zip(("host", "port"), places[0], strict=True)))


def _place(text: str, port: int) -> Place:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ValueError("no host")
    return found[1] or found[2], int(found[3] or port)


def _options(url: str) -> dict[str, Any]:
    """Return redis-py's options for the URL of one server; raise the errors of redis-py and of urllib."""
    pool = ConnectionPool.from_url(url)
    pool.connection_class(**pool.connection_kwargs)  # raises for an option that it does not know
    parts = urlsplit(url)
    if parts.scheme == "unix":
        pool.connection_kwargs["path"]  # raises without a path
    else:
        int(parts.path.strip("/") or 0)
    if parts.fragment or (parts.query and not parse_qsl(parts.query, strict_parsing=True)):
        raise ValueError("part of a password that was not encoded")
    return {"connection_class": pool.connection_class, **pool.connection_kwargs}


def shown(places: tuple[Place, ...]) -> str:
    """Return places in the form that people write."""
    return ", ".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in places)
