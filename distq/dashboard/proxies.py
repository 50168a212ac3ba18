"""Headers of trusted proxies: the person, address and scheme of a request; those of others are dropped."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from distq.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
NAMED = "distq.named"
"""The variable of a request's environment that has the name that a trusted proxy gave."""

_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_FORWARDED = (
    "FORWARDED",
    *(f"X_FORWARDED_{what}" for what in ("FOR", "PROTO", "HOST", "PORT", "PREFIX")),
)


def parse_network(text: str) -> Network:
    """Return the network that is written as an address or as ``10.0.0.0/8``. Raises ConfigError."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ConfigError(
            f'bad trusted proxy "{text:.60}": {error}. Give an address, or 10.0.0.0/8.'
        ) from None


def require_header(name: str) -> str:
    """Return the name of a header that may name people. Raises ConfigError."""
    if not _HEADER.fullmatch(name):
        raise ConfigError(f'bad header "{name:.60}". Use letters, digits and dashes, as X-Forwarded-User.')
    return name


class Proxies:
    """A WSGI middleware that takes the headers of trusted proxies, and drops those of all other peers.

    Of a trusted peer: ``REMOTE_ADDR`` becomes the last address of X-Forwarded-For that is no trusted proxy
    itself, X-Forwarded-Proto may say ``https``, and ``header`` names a person under NAMED.
    """

    def __init__(
        self, application: "WSGIApplication", trusted: Sequence[Network], header: str | None = None
    ) -> None:
        self._application = application
        self._trusted = trusted
        self._header = header and f"HTTP_{header.upper().replace('-', '_')}"

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer a request."""
        forwarded = {name: environ.pop(f"HTTP_{name}", None) for name in _FORWARDED}
        name = environ.pop(self._header, None) if self._header else None
        environ.pop(NAMED, None)
        if self._is_trusted(environ.get("REMOTE_ADDR", "")):
            environ["REMOTE_ADDR"] = self._client(environ["REMOTE_ADDR"], forwarded["X_FORWARDED_FOR"] or "")
            # the last one is of the nearest proxy; a client may have sent those before
            if (forwarded["X_FORWARDED_PROTO"] or "").rpartition(",")[2].strip().lower() == "https":
                environ["wsgi.url_scheme"] = "https"
            if name is not None:
                environ[NAMED] = _text(name)
        return self._application(environ, start_response)

    def _client(self, peer: str, forwarded_for: str) -> str:
        """Return the nearest address that is no trusted proxy."""
        nearest = peer
        for hop in reversed(forwarded_for.split(",")):  # a client may have invented those beyond
            address = _address(hop.strip())
            if address is None:
                break
            nearest = str(address)
            if not self._is_trusted(nearest):
                break
        return nearest

    def _is_trusted(self, text: str) -> bool:
        address = _address(text)
        return address is not None and any(address in network for network in self._trusted)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address, as IPv4 where it is an IPv4 one written as IPv6; None for other text."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped if address.version == 6 else None) or address


def _text(value: str) -> str:
    """Return a header's value, which WSGI gives as Latin-1, as the UTF-8 that proxies send."""
    return value.encode("latin-1", errors="replace").decode(errors="replace")
