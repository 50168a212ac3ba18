"""How one process reaches one cluster: a pool of connections, and credentials that stay fresh."""

import functools
import logging
import os
import re
import socket
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning, ProtocolError, SSLError

from distq.client import credentials
from distq.client.error_mapping import no_answer
from distq.client.http_answer import AnswerTooLarge, AnyResponse
from distq.client.http_pool import LeanPool, lean
from distq.config import kubeconfig_variable
from distq.errors import ApiError
from distq.spans import SpanFailure, current_provider, failure_of

if TYPE_CHECKING:
    from kubernetes.client import Configuration

IDLE_CONNECTIONS = 64
"""Connections that are kept for the next request; more are opened as needed, and closed after it."""
_AUTHORIZED_FOR = 1.0
"""Seconds that requests share a header; the package refreshes a token minutes before its end."""
_OWN_HEADERS = {"User-Agent": "distq", "Accept-Encoding": "identity"}

_logger = logging.getLogger("distq")
_warned_of: set[tuple[str, str]] = set()


class Transport:
    """The pool and credentials that one process uses for one cluster."""

    def __init__(self, cluster: credentials.Cluster) -> None:
        self.process = os.getpid()
        self.variable = kubeconfig_variable()
        self.origin = cluster.origin
        self.configuration: Configuration = cluster.configuration
        self.configuration.retries = False  # a write whose connection broke may have been done
        self.configuration.connection_pool_maxsize = IDLE_CONNECTIONS
        self.configuration.socket_options = _socket_options()
        self.server: str = self.configuration.host.rstrip("/")
        self.configuration.host = self.server
        # The package looks through the environment for a proxy whenever it sets the host, as it does
        # for each request with a token; one that was set stays.
        self.configuration.proxy = self.configuration.proxy
        self.namespace = cluster.namespace
        self.certificate_authority: str | None = self.configuration.ssl_ca_cert
        if self.server.startswith("https:") and not self.configuration.verify_ssl:
            _warn_of_no_check(self.server, self.origin)
        self._host = urllib3.util.parse_url(self.server).netloc or ""
        self._pool = self._new_pool()
        self._credentials_lock = threading.Lock()
        self._shared_authorization: tuple[Mapping[str, str], float] = {}, 0.0

    def ask(
        self,
        send: Callable[..., AnyResponse],
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        timeout: float | urllib3.Timeout,
        query: Mapping[str, str] | None = None,
        **options: Any,
    ) -> AnyResponse:
        """Send a request by a method of LeanPool, and return its answer, of any status.

        A GET whose connection broke before it had its answer is sent once more, in the time that is left.
        """
        what = f"{method} {path}"
        headers = {"Host": self._host, **headers, **self._authorization(what), **_OWN_HEADERS}
        target = f"{path}?{_encoded(tuple(query.items()))}" if query else path
        tries, began = 2 if method == "GET" else 1, time.monotonic()
        while True:
            tries -= 1
            pool = self._pool
            request = functools.partial(
                send, pool, method, f"{self._root}{target}", timeout=timeout, **options
            )
            try:
                return within_span(request, method, f"{self.server}{target}", headers)
            except (ProtocolError, SSLError) as error:
                if not isinstance(timeout, urllib3.Timeout):
                    timeout -= time.monotonic() - began
                    tries = tries if timeout > 0 else 0
                if not tries:
                    raise self.no_answer(what, error) from None
                if self._pool is pool:  # its other idle connections are as old
                    self._pool = self._new_pool()
            except (HTTPError, OSError) as error:
                raise self.no_answer(what, error) from None

    def no_answer(self, what: str, error: Exception) -> ApiError:
        """Return the error for a request to this server that broke."""
        return no_answer(what, error, self._host or self.server, self.origin)

    def lacks_files(self) -> bool:
        """Return whether a file that new connections need was removed, as cleaners of /tmp do.

        The package keeps certificates of a kubeconfig there, and removes them at the end of a process, also
        of one that was forked from this.
        """
        of = self.configuration
        files = of.ssl_ca_cert, of.cert_file, of.key_file
        return not all(Path(file).exists() for file in files if file)

    def _new_pool(self) -> LeanPool:
        """Return a pool that reaches the server with the package's TLS, and through its proxy.

        It does not change while it is used, and closes its connections when it is no longer used.
        """
        from kubernetes.client import ApiClient

        pools: urllib3.PoolManager = ApiClient(self.configuration).rest_client.pool_manager
        kinds = pools.pool_classes_by_scheme.items()
        pools.pool_classes_by_scheme = {scheme: lean(kind) for scheme, kind in kinds}
        pool = pools.connection_from_url(self.server)
        # a proxy that forwards, since there is no TLS to tunnel, is asked for the whole URL
        self._root = self.server if pools.proxy and self.server.startswith("http:") else ""
        return cast("LeanPool", pool)

    def _authorization(self, what: str) -> Mapping[str, str]:
        """Return the header with the token; the package refreshes it here, in one thread at a time."""
        headers, until = self._shared_authorization
        if time.monotonic() < until:
            return headers
        with self._credentials_lock:
            headers, until = self._shared_authorization
            if time.monotonic() >= until:  # else the thread before asked: a plugin that hangs takes its time
                headers = self._newest_authorization(what)
                self._shared_authorization = headers, time.monotonic() + _AUTHORIZED_FOR
            return headers

    def _newest_authorization(self, what: str) -> Mapping[str, str]:
        try:
            settings = self.configuration.auth_settings().values()
        except Exception as error:  # noqa: BLE001  plugins raise what they like
            # its message may quote a command line, its chain too
            cause = type(error).__name__
            raise ApiError(f"{what}: no credentials: {cause}. Check {self.origin}.") from None
        headers = {setting["key"]: setting["value"].strip() for setting in settings if setting["value"]}
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise ApiError(f"{what}: no credentials: a token of strange characters. Check {self.origin}.")
        return headers


@functools.lru_cache(256)
def _encoded(query: tuple[tuple[str, str], ...]) -> str:
    return urlencode(query)


def within_span(
    send: Callable[..., AnyResponse], method: str, url: str, headers: Mapping[str, str]
) -> AnyResponse:
    """Send a request and return its answer; the span, if any, ends with the answer, or a watch's head.

    ``send`` takes the ``headers``.
    """
    provider = current_provider()
    if provider is None:
        return send(headers=headers)
    server = urllib3.util.parse_url(url)
    about = {"http.request.method": method, "url.full": url, "server.address": server.host or ""}
    port = server.port or (80 if server.scheme == "http" else 443)
    span = provider.begin(method, "client", {**about, "server.port": port})
    try:
        response = send(headers={**span.headers(), **headers})
    except AnswerTooLarge:  # it was no failure: smaller pages follow
        span.end({"http.response.status_code": int(HTTPStatus.OK)})
        raise
    except BaseException as error:
        span.end(failure=failure_of(error))
        raise
    status = response.status
    span.end({"http.response.status_code": status}, SpanFailure(str(status)) if status >= 400 else None)
    return response


def _warn_of_no_check(server: str, origin: str) -> None:
    """Log once that no certificate is checked, instead of urllib3's warning at each request."""
    host = urllib3.util.parse_url(server).host or ""
    message = re.escape(f"Unverified HTTPS request is being made to host '{host.strip('[]')}'")
    warnings.filterwarnings("ignore", message=message, category=InsecureRequestWarning)
    if (server, origin) not in _warned_of:
        _warned_of.add((server, origin))
        _logger.warning(
            "%s: insecure-skip-tls-verify: the certificate of %s is not checked; any server between could "
            "answer for it. Give its certificate-authority.",
            origin,
            server,
        )


def _socket_options() -> list[tuple[int, int, int]]:
    """Return socket options that detect a dead peer within 20 s, also on a watch without traffic."""
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    wanted = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}
    for name, value in wanted.items():
        if hasattr(socket, name):  # not everywhere but on Linux
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options
