"""The typed API of the ``kubernetes`` package over a Client's own requests.

The package's ApiClient keeps the configuration and the pool that it was made with. Here it asks for both at
each call, so it follows a Client to another sandbox and to new credentials, by the Client's connections.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import urllib3

from distq.client.http_pool import CONNECT_TIMEOUT
from distq.client.transport import Transport
from distq.errors import ConfigError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

Send = Callable[..., urllib3.BaseHTTPResponse]
_ENDLESS = {"watch", "follow"}
"""Parameters of requests whose answer has no end ..."""
_NO = {"false", "0"}
"""... unless they have such a value. Source: apimachinery Convert_Slice_string_To_bool."""


def api_client(connected: Callable[[], Transport], send: Send, timeout: float) -> "ApiClient":
    """Return an ApiClient that sends by ``send``, with the configuration of the current transport."""
    from kubernetes.client import ApiClient, Configuration

    client = ApiClient(Configuration())  # its parts are replaced at once; the default might be another's
    client.configuration = _CurrentConfiguration(connected)
    client.rest_client.pool_manager = _ClientRequests(connected, send, timeout)
    return client


class _CurrentConfiguration:
    """In place of a Configuration: server, TLS and credentials as the transport has them now."""

    def __init__(self, connected: Callable[[], Transport]) -> None:
        self._connected = connected

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connected().configuration, name)


class _ClientRequests:
    """In place of the package's pool of connections."""

    def __init__(self, connected: Callable[[], Transport], send: Send, timeout: float) -> None:
        self._connected = connected
        self._send = send
        self._timeout = timeout

    def request(self, method: str, url: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Send the package's request to the Client's server, with its credentials."""
        server = self._connected().server
        if not url.startswith(f"{server}/"):
            raise ConfigError(f"cannot ask {url}: this is an ApiClient of {server}. Leave out _host.")
        options["headers"] = options.get("headers") or {}
        parameters = [*parse_qsl(urlsplit(url).query), *dict(options.get("fields") or ()).items()]
        is_endless = any(name in _ENDLESS and str(value).lower() not in _NO for name, value in parameters)
        read = None if is_endless else self._timeout
        options["timeout"] = options.get("timeout") or urllib3.Timeout(connect=CONNECT_TIMEOUT, read=read)
        return self._send(method, url.removeprefix(server), **options)

    def clear(self) -> None:
        """Keep the connections, which are the Client's: the package closes its pool by this."""
