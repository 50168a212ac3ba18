"""The servers behind one Connection, each with its pool, and the choice of the server for a key."""

from dataclasses import dataclass, field
from typing import Protocol

import redis
from redis.exceptions import AskError, MovedError

from distq.redisio.address import Address
from distq.redisio.cluster import slot_of
from distq.redisio.error_mapping import is_read_only
from distq.redisio.pool import Pool
from distq.redisio.redis_url import Place


@dataclass(frozen=True)
class Server:
    """One server, or the primary that Sentinels know, and its connections."""

    address: Address
    pool: Pool = field(compare=False)


class Servers(Protocol):
    """The servers that have the keys."""

    def of(self, key: str) -> Server:
        """Return the server of a key; raise redis-py's error if no server knows it."""

    def all(self) -> list[Server]:
        """Return all primaries."""

    def redirected(self, error: AskError, by: Server) -> Server:
        """Return the server to which another one redirects; raise the error if this is not possible."""

    def failed(self, server: Server | None, error: Exception) -> None:
        """Update the map of servers after an error."""

    def disconnect(self) -> None:
        """Close the connections that no call uses."""


def servers_of(address: Address, timeout: float) -> Servers:
    """Return the servers behind an address, which get ``timeout`` seconds for an answer."""
    return _Cluster(address, timeout) if address.url.topology == "cluster" else OneServer(address, timeout)


class OneServer:
    """All keys are on one server, which a failover may replace. See ``Servers``."""

    def __init__(self, address: Address, timeout: float) -> None:
        self._timeout = timeout
        self._server = Server(address, address.pool(timeout))
        self._moves = address.url.topology == "sentinel"
        self._primary = address.primary()

    def of(self, key: str) -> Server:  # noqa: ARG002
        """Return the server; after a failover the new primary, even while the old one still answers."""
        server = self._server
        if self._moves and (primary := server.address.primary()) != self._primary:
            self._server = Server(server.address, server.address.pool(self._timeout))
            self._primary = primary  # last: if this is interrupted, the next call does it again
            server.pool.disconnect()
        return self._server

    def all(self) -> list[Server]:
        """Return the server."""
        return [self._server]

    def redirected(self, error: AskError, by: Server) -> Server:  # noqa: ARG002
        """Raise the error: a configured address is used as it is."""
        raise error

    def failed(self, server: Server | None, error: Exception) -> None:  # noqa: ARG002
        """Leave a demoted primary: its name may lead to another server by now."""
        if is_read_only(error):
            self._server.pool.disconnect()
            self._server.address.distrust()

    def disconnect(self) -> None:
        """Close the connections that no call uses."""
        self._server.pool.disconnect()


class _Cluster:
    """Each key is on the node that serves its slot. See ``Servers``."""

    def __init__(self, address: Address, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._nodes: dict[Place, Server] = {}

    def of(self, key: str) -> Server:
        return self._node(self._address.slots.owner(slot_of(key)))

    def all(self) -> list[Server]:
        return [self._node(place) for place in self._address.slots.owners()]

    def redirected(self, error: AskError, by: Server) -> Server:
        place = (error.host or by.address.places[0][0], error.port)
        if isinstance(error, MovedError):
            self._address.slots.learn(error.slot_id, place)
        return self._node(place)

    def failed(self, server: Server | None, error: Exception) -> None:
        if isinstance(error, redis.exceptions.TryAgainError):  # its slot is moving between two nodes
            return
        if is_read_only(error) and server is not None:
            server.pool.disconnect()
        if is_read_only(error) or not isinstance(error, redis.ResponseError) or "DOWN" in str(error):
            self._address.slots.doubt(server.address.places[0] if server else None)

    def disconnect(self) -> None:
        for node in list(self._nodes.values()):
            node.pool.disconnect()

    def _node(self, place: Place) -> Server:
        node = self._nodes.get(place)
        if node is None:
            address = self._address.node(place)
            # in one step: another thread may make it just now
            node = self._nodes.setdefault(place, Server(address, address.pool(self._timeout)))
        return node
