"""The node of a cluster that serves a key: the slots as the cluster last reported them.

All keys of a queue are in one slot (``keys``). A node that does not serve it names the one that does: MOVED
from now on, ASK for this call only. After silence or CLUSTERDOWN the slots are read again.
"""

from collections.abc import Callable, Sequence
from typing import Any

import redis
from redis.connection import AbstractConnection
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from distq.redisio.pool import ask_once
from distq.redisio.redis_url import Place, UnknownPlace, shown


def slot_of(key: str | bytes) -> int:
    """Return the slot of a key, by its hash tag if it has one."""
    return int(key_slot(key.encode() if isinstance(key, str) else key))


class SlotMap:
    """The primary of each slot, for a whole process; read from the cluster when needed and unknown."""

    def __init__(
        self, seeds: Sequence[Place], open_connection: Callable[[Place], AbstractConnection]
    ) -> None:
        self._seeds = tuple(seeds)
        self._nodes = self._seeds
        self._open = open_connection
        self._owners: list[Place | None] | None = None

    def owner(self, slot: int) -> Place:
        """Return the primary of the slot; raise redis-py's ClusterDownError if it has none."""
        owners = self._owners or self._load()
        found = owners[slot]
        if found is None:
            self._owners = None
            raise redis.exceptions.ClusterDownError(f"CLUSTERDOWN slot {slot} is not served")
        return found

    def known_owner(self, slot: int) -> Place | None:
        """Return the primary of the slot if it is known; ask no node."""
        return self._owners[slot] if self._owners else None

    def owners(self) -> Sequence[Place]:
        """Return all primaries, sorted."""
        return sorted({owner for owner in self._owners or self._load() if owner is not None})

    def learn(self, slot: int, owner: Place) -> None:
        """Note the owner that a node named."""
        if self._owners is not None:
            self._owners[slot] = owner

    def doubt(self, silent: Place | None = None) -> None:
        """Read the slots again when next needed; ask the ``silent`` node last."""
        self._owners = None
        if silent in self._nodes:
            self._nodes = (*(node for node in self._nodes if node != silent), silent)

    def _load(self) -> list[Place | None]:
        """Read the slots from the first node that answers."""
        causes: list[str] = []
        refused = False
        for place in dict.fromkeys((*self._nodes, *self._seeds)):
            try:
                ranges = ask_once(self._open(place), "CLUSTER", "SLOTS")
            except redis.AuthenticationError:  # the other nodes get the same login
                raise
            except (redis.RedisError, OSError) as error:
                answered = isinstance(error, redis.ResponseError)
                refused = refused or "cluster support disabled" in str(error)
                text = str(error).rstrip(".")
                causes.append(f"{shown((place,))} answered {text}" if answered else text)
                continue
            return self._take(place, ranges)
        raise UnknownPlace(
            f"no node of the cluster {shown(self._seeds)} reports its slots: "
            + "; ".join(dict.fromkeys(causes)),
            refused=refused,
        )

    def _take(self, reporter: Place, ranges: Sequence[Any]) -> list[Place | None]:
        owners: list[Place | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        nodes: list[Place] = []
        for first, last, *served_by in ranges:
            places = [((host or b"").decode(), int(port)) for host, port, *_ in served_by]
            # a node may not know its own host
            places = [(host if host not in ("", "?") else reporter[0], port) for host, port in places]
            owners[first : last + 1] = [places[0]] * (last + 1 - first)
            nodes += places
        self._nodes = tuple(dict.fromkeys((reporter, *nodes)))
        self._owners = owners
        return owners
