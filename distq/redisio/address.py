"""Which Redis: the URL and settings as one thing that opens pools and can be named in messages."""

import contextlib
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, ConnectionPool, SSLConnection
from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisError, ResponseError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from distq.config import Settings
from distq.errors import ConfigError

DEFAULT_URL = "redis://127.0.0.1:6379/0"
_SCHEMES = "redis, rediss or unix"
_LATER = ("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")


class Address:
    """Where Redis is and who we are there; read from the environment at the first use."""

    def __init__(self, url: str | None, settings: Settings | None) -> None:
        self._given = url
        self._given_settings = settings
        self.server_time = 0
        self.checked = False
        """Whether the server was found fit, by anybody who shares this address."""

    @cached_property
    def settings(self) -> Settings:
        """Return the settings given, or those of the environment."""
        return self._given_settings or Settings.from_env()

    @cached_property
    def origin(self) -> str:
        """Return where the URL comes from: ``argument``, ``variable`` or ``unset``."""
        if self._given is not None:
            return "argument"
        return "unset" if self.settings.redis_url is None else "variable"

    @cached_property
    def options(self) -> dict[str, Any]:
        """Return redis-py's connection options; raise ConfigError for a URL that cannot work."""
        url = self._given or self.settings.redis_url or DEFAULT_URL
        name = "Redis URL" if self.origin == "argument" else "DISTQ_REDIS_URL"
        scheme, separator, _ = url.partition("://")
        scheme = scheme if re.fullmatch(r"[a-z+]{1,16}", scheme) else ""  # else it may be half a password
        if separator and scheme in _LATER:
            raise ConfigError(f'bad {name}: "{scheme}" is not supported yet. Use {_SCHEMES}.')
        if not separator or scheme not in ("redis", "rediss", "unix"):
            raise ConfigError(f'bad {name}: unknown scheme "{scheme if separator else ""}". Use {_SCHEMES}.')
        try:
            pool = ConnectionPool.from_url(url)
            pool.connection_class(**pool.connection_kwargs)  # knows its options
            parts = urlsplit(url)
            if scheme == "unix":
                pool.connection_kwargs["path"]  # it has one
            else:
                int(parts.path.strip("/") or 0)
            if parts.fragment or (parts.query and not parse_qsl(parts.query, strict_parsing=True)):
                raise ValueError("part of a password that was not encoded")
        except (ValueError, TypeError, KeyError, RedisError):  # its words may quote a password
            raise ConfigError(
                f"bad {name}: its port, database or options make no sense. "
                "Use redis://user:password@host:port/database, special characters percent-encoded."
            ) from None
        return {"connection_class": pool.connection_class, **pool.connection_kwargs}

    @cached_property
    def where(self) -> str:
        """Return host:port, or the socket's path."""
        path = self.options.get("path")
        return (
            str(path) if path else f"{self.options.get('host', 'localhost')}:{self.options.get('port', 6379)}"
        )

    @property
    def prefix(self) -> str:
        """Return what the names of all our keys begin with."""
        return self.settings.prefix

    @cached_property
    def user(self) -> str:
        """Return the user that we log in as; Redis calls the one without a name default."""
        return self._username or "default"

    @property
    def _username(self) -> str | None:
        return self.settings.redis_username or self.options.get("username")

    def pool(self, timeout: float) -> ConnectionPool:
        """Return a new pool that waits ``timeout`` seconds for an answer; nothing is connected yet."""
        return ConnectionPool(
            **self.options
            | {
                "protocol": 2,  # one shape of replies on all servers
                "maint_notifications_config": MaintNotificationsConfig(enabled=False),  # wants protocol 3
                "retry": Retry(NoBackoff(), 0),
                "retry_on_error": [],
                "socket_timeout": timeout,
                "socket_connect_timeout": timeout,
                "decode_responses": False,  # whatever the URL says
                "driver_info": None,  # CLIENT SETINFO is a right that not everybody has
            }
            | ({} if "path" in self.options else {"socket_keepalive": True})
            | self._credentials()
            | self._tls()
        )

    def _credentials(self) -> dict[str, Any]:
        chosen = self.settings
        if chosen.redis_password_file is not None:
            return {
                "username": None,
                "password": None,
                "credential_provider": _PasswordFile(chosen.redis_password_file, self._username),
            }
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
        return given | {"redis_connect_func": _log_in_and_hear}


def _log_in_and_hear(connection: AbstractConnection) -> None:
    """Read one answer, and with it the session tickets of TLS, which redis-py takes for an unread one."""
    connection.on_connect()
    connection.send_command("PING", check_health=False)
    with contextlib.suppress(ResponseError):
        connection.read_response()


class NoPassword(NotConnected):
    """There is nothing to log in with."""


class _PasswordFile(CredentialProvider):
    """Read at every connection, so that a mounted secret can rotate."""

    def __init__(self, file: Path, username: str | None) -> None:
        self._file = file
        self._username = username

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        try:
            password = self._file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = "it is no text" if isinstance(error, UnicodeDecodeError) else str(error.strerror).lower()
            raise NoPassword(
                f"no password file {self._file}: {why}. Check DISTQ_REDIS_PASSWORD_FILE"
            ) from None
        return (self._username, password) if self._username else (password,)
