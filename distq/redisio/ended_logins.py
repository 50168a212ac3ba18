"""Which logins to the dashboard were ended before their cookies end: of all its replicas, in Redis.

prefix:ended_login:ID  STRING, which expires when no copy of the cookie is good any more
"""

from distq.redisio.connection import Connection
from distq.redisio.keys import ended_login_key


class EndedLogins:
    """The logins that somebody ended; each look is one command. Raises RedisError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, login: str, *, seconds: int) -> None:
        """Remember for so long that a login was ended."""
        self._connection.execute("SETEX", self._key(login), seconds, "1")

    def __contains__(self, login: str) -> bool:
        """Return whether a login was ended."""
        return bool(self._connection.execute("EXISTS", self._key(login)))

    def _key(self, login: str) -> str:
        return ended_login_key(login, prefix=self._connection.prefix)
