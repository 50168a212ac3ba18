"""The name of a queue in the hash of existing queues, in which people find it."""

import time

from distq.errors import RedisRefused, RedisUnavailable
from distq.redisio.connection import Connection
from distq.redisio.keys import queues_key

REGISTRATION_PERIOD = 60.0
"""Seconds after which a queue in use checks again whether its name is registered."""


class QueueRegistration:
    """Registers a queue, and again after a wipe removed its name; all stores of one handle share it.

    No script does this, because that key is in another slot. If its server has full memory, or is another
    node of a cluster and down, the queue works without it, and checks again.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.good_until = 0.0
        """The monotonic time of the next check."""

    def renew(self, connection: Connection) -> None:
        """Check, and write the name if it is missing."""
        try:
            if not is_registered(connection, self._name):  # full memory permits this read only
                connection.execute("HSETNX", queues_key(connection.prefix), self._name, int(time.time()))
        except RedisRefused as error:
            if "is full" not in str(error):
                raise
            return
        except RedisUnavailable:
            pass  # not before the period is over: each check may have to wait for Redis
        self.good_until = time.monotonic() + REGISTRATION_PERIOD


def is_registered(connection: Connection, name: str) -> bool:
    """Return whether a queue was ever used."""
    return bool(connection.execute("HEXISTS", queues_key(connection.prefix), name))
