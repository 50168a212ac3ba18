"""Logins to the dashboard that were ended before their cookies expire; in Redis, for all its replicas.

prefix:ended_login:ID  STRING, which expires with the cookie
"""

from distq.redisio.connection import Connection
from distq.redisio.keys import ended_login_key


class EndedLogins:
    """The ended logins; each check is one command. Raises RedisError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, login: str, *, seconds: int) -> None:
        """Remember an ended login for so many seconds."""
        self._connection.execute("SETEX", self._key(login), seconds, "1")

    def __contains__(self, login: str) -> bool:
        return bool(self._connection.execute("EXISTS", self._key(login)))

    def _key(self, login: str) -> str:
        return ended_login_key(login, prefix=self._connection.prefix)
