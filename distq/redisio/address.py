"""The address of Redis, from the URL and the settings: it opens connections and is shown in messages."""

import contextlib
import copy
import dataclasses
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, SSLConnection
from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import ResponseError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from distq.config import Settings
from distq.forks import cached_property
from distq.redisio.cluster import SlotMap
from distq.redisio.pool import Pool
from distq.redisio.redis_url import Place, RedisUrl, shown
from distq.redisio.sentinels import Sentinels, following

DEFAULT_URL = "redis://127.0.0.1:6379/0"

_ASKING = 1.0
"""Seconds that a Sentinel or node gets to answer which server has the data; then another one is asked."""


class Address:
    """The address of Redis and our login; read from the environment at the first use."""

    def __init__(self, url: str | None, settings: Settings | None) -> None:
        self._given = url
        self._given_settings = settings
        self.server_time = 0
        """See ``Connection``."""
        self.runs_by_hash = True
        """Whether scripts may be called by their hash; otherwise each call sends the source."""
        self.checked: set[str] = set()
        """The servers that passed the checks; all users of this address share them."""

    def anew(self) -> "Address":
        """Return the address that the environment has now, or this one if it was given."""
        is_given = self._given is not None or self._given_settings is not None
        return self if is_given else Address(None, None)

    @cached_property
    def settings(self) -> Settings:
        """Return the settings given, or those of the environment."""
        return self._given_settings or Settings.from_env()

    @cached_property
    def origin(self) -> str:
        """Return the origin of the URL: ``argument``, ``variable`` or ``unset``."""
        if self._given is not None:
            return "argument"
        return "unset" if self.settings.redis_url is None else "variable"

    @cached_property
    def url(self) -> RedisUrl:
        """Return the URL's parts; raise ConfigError for one that cannot work."""
        name = "Redis URL" if self.origin == "argument" else "DISTQ_REDIS_URL"
        return RedisUrl.parse(self._given or self.settings.redis_url or DEFAULT_URL, name)

    @property
    def options(self) -> dict[str, Any]:
        """Return redis-py's connection options; raise ConfigError for a URL that cannot work."""
        return self.url.options

    @property
    def places(self) -> tuple[Place, ...]:
        """Return the configured places: Sentinels, nodes of a cluster, or the server; none for a socket."""
        return self.url.places

    @cached_property
    def where(self) -> str:
        """Return host:port, the socket's path, or the Sentinels or nodes, for messages."""
        if self._is_primary_elsewhere:
            return f'"{self.url.service}" of Sentinels {shown(self.places)}'
        return shown(self.places) or str(self.options["path"])

    @property
    def _is_primary_elsewhere(self) -> bool:
        return self.url.topology == "sentinel"

    @cached_property
    def slots(self) -> SlotMap:
        """Return the map from slots to nodes of the cluster."""
        return SlotMap(self.places, lambda place: self.node(place).connection(_ASKING))

    def node(self, place: Place) -> "Address":
        """Return the address of one node, as the same user."""
        node = copy.copy(self)
        options = self.options | {"host": place[0], "port": place[1]}
        node.url = dataclasses.replace(self.url, places=(place,), options=options)
        node.where = shown((place,))  # the copy may have that of the cluster
        return node

    @property
    def prefix(self) -> str:
        """Return the prefix of all our keys."""
        return self.settings.prefix

    @cached_property
    def user(self) -> str:
        """Return the user of our login; without a name it is Redis' user default."""
        return self._username or "default"

    @property
    def password_origin(self) -> str:
        """Return the setting that gives our password, for messages; without one the one that should."""
        chosen = self.settings
        if chosen.redis_password_file is not None:
            return f"DISTQ_REDIS_PASSWORD_FILE ({chosen.redis_password_file})"
        if chosen.redis_password is not None or not self.options.get("password"):
            return "DISTQ_REDIS_PASSWORD"
        return "DISTQ_REDIS_URL" if self.origin == "variable" else "its URL"

    @property
    def _username(self) -> str | None:
        return self.settings.redis_username or self.options.get("username")

    def pool(self, timeout: float) -> Pool:
        """Return a new pool that waits ``timeout`` seconds for an answer; nothing is connected yet."""
        return Pool(self._maker(self._connection_options(timeout)))

    def connection(self, timeout: float, *, database: str | None = None) -> AbstractConnection:
        """Return a connection outside of any pool, not connected yet."""
        options = self._connection_options(timeout)
        return self._maker(options if database is None else options | {"db": database})()

    def _maker(self, options: dict[str, Any]) -> Callable[[], AbstractConnection]:
        """Return a factory of connections to the server, or to the primary that Sentinels know."""
        connection_class = options.pop("connection_class")
        if self._is_primary_elsewhere:
            connection_class, options["sentinels"] = following(connection_class), self._sentinels
        return partial(connection_class, **options)

    def primary(self) -> Place | None:
        """Return the primary that Sentinels named last; None without Sentinels."""
        return self._sentinels.latest() if self._is_primary_elsewhere else None

    def distrust(self) -> None:
        """Ask another Sentinel first: the last one named a server that is no primary."""
        if self._is_primary_elsewhere:
            self._sentinels.distrust()

    @cached_property
    def _sentinels(self) -> Sentinels:
        return Sentinels(self.places, self.url.service, self._to_sentinel)

    def _to_sentinel(self, place: Place) -> AbstractConnection:
        """Return a connection to a Sentinel; Sentinels have their own users, and no databases."""
        host, port = place
        chosen = self.settings
        login: dict[str, Any] = {
            "username": chosen.redis_sentinel_username,
            "password": chosen.redis_sentinel_password,
            "credential_provider": None,  # not that of Redis
        }
        if chosen.redis_sentinel_password_file is not None:
            login = _login_by_file(
                chosen.redis_sentinel_password_file,
                chosen.redis_sentinel_username,
                "DISTQ_REDIS_SENTINEL_PASSWORD_FILE",
            )
        options = self._connection_options(_ASKING) | login | {"host": host, "port": port, "db": ""}
        connection: AbstractConnection = options.pop("connection_class")(**options)
        return connection

    def _connection_options(self, timeout: float) -> dict[str, Any]:
        return (
            self.options
            | {
                "db": str(self.options.get("db") or ""),  # as text: hiredis packs it, see ``conversation``
                "protocol": 2,  # replies have the same form on all servers
                "maint_notifications_config": MaintNotificationsConfig(enabled=False),  # wants protocol 3
                "retry": Retry(NoBackoff(), 0),  # ``Connection`` repeats calls
                "retry_on_error": [],
                "socket_timeout": timeout,
                "socket_connect_timeout": timeout,
                "decode_responses": False,  # even if the URL sets it
                "driver_info": None,  # CLIENT SETINFO is a right that some users lack
            }
            | ({} if "path" in self.options else {"socket_keepalive": True})
            | self._credentials()
            | self._tls()
        )

    def _credentials(self) -> dict[str, Any]:
        chosen = self.settings
        if chosen.redis_password_file is not None:
            return _login_by_file(chosen.redis_password_file, self._username, "DISTQ_REDIS_PASSWORD_FILE")
        given = {"username": chosen.redis_username, "password": chosen.redis_password}
        return {name: value for name, value in given.items() if value is not None}

    def _tls(self) -> dict[str, Any]:
        if not issubclass(self.options["connection_class"], SSLConnection):
            return {}
        chosen = self.settings
        files = {
            "ssl_ca_certs": chosen.redis_ca_file,
            "ssl_certfile": chosen.redis_cert_file,
            "ssl_keyfile": chosen.redis_key_file,
        }
        given = {name: os.fspath(file) for name, file in files.items() if file is not None}
        return given | {"redis_connect_func": _log_in_and_ping}


def _log_in_and_ping(connection: AbstractConnection) -> None:
    """Read one answer, and with it the TLS session tickets: redis-py would take them for an unread reply."""
    connection.on_connect()
    connection.send_command("PING", check_health=False)
    with contextlib.suppress(ResponseError):  # a refusal is an answer, too
        connection.read_response()


class NoPassword(NotConnected):
    """The password of the login cannot be read."""


def _login_by_file(file: Path, username: str | None, variable: str) -> dict[str, Any]:
    return {
        "username": None,
        "password": None,
        "credential_provider": _PasswordFile(file, username, variable),
    }


class _PasswordFile(CredentialProvider):
    def __init__(self, file: Path, username: str | None, variable: str) -> None:
        self._file = file
        self._username = username
        self._variable = variable

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        try:  # for each connection, since a mounted secret may rotate
            password = self._file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = "it is no text" if isinstance(error, UnicodeDecodeError) else str(error.strerror).lower()
            raise NoPassword(f"no password file {self._file}: {why}. Check {self._variable}") from None
        return (self._username, password) if self._username else (password,)
