"""The name of a queue in the hash of queues that exist, by which people find it."""

import time

from distq.errors import RedisRefused, RedisUnavailable
from distq.redisio.connection import Connection
from distq.redisio.keys import queues_key

REGISTRATION_PERIOD = 60.0
"""Seconds after which a queue in use looks again whether it is known to people."""


class QueueRegistration:
    """Makes a queue known, and again where a wipe took its name; shared by all stores of one handle.

    It is in no script, since that key is in another slot. Where its server is full, or is another node of a
    cluster and down, the queue does without, and looks again.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.good_until = 0.0
        """The monotonic time at which to look again."""

    def renew(self, connection: Connection) -> None:
        """Look, and write the name where it is missing."""
        try:
            if not is_registered(connection, self._name):  # full memory permits a look only
                connection.execute("HSETNX", queues_key(connection.prefix), self._name, int(time.time()))
        except RedisRefused as error:
            if "is full" not in str(error):
                raise
            return
        except RedisUnavailable:
            pass  # not before the period is over: each look may have to wait for it
        self.good_until = time.monotonic() + REGISTRATION_PERIOD


def is_registered(connection: Connection, name: str) -> bool:
    """Return whether a queue was ever used."""
    return bool(connection.execute("HEXISTS", queues_key(connection.prefix), name))
