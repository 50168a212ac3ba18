"""Headers are believed of trusted proxies alone."""

from typing import Any

import pytest

from distq.dashboard.proxies import NAMED, Proxies, parse_network, require_header
from distq.errors import ConfigError

TRUSTED = [parse_network("10.0.0.0/8"), parse_network("fd00::/8")]


def seen(peer: str, **headers: str) -> dict[str, Any]:
    """Return the environment that the dashboard sees of a request that a peer sends."""
    found: dict[str, Any] = {}

    def application(environ: dict[str, Any], start_response: object) -> list[bytes]:
        found.update(environ)
        return []

    environ = {"REMOTE_ADDR": peer, "wsgi.url_scheme": "http", **{f"HTTP_{k}": v for k, v in headers.items()}}
    Proxies(application, TRUSTED, "X-Forwarded-User")(environ, lambda *_: lambda _: None)
    return found


def test_a_trusted_proxy_passes_user_address_and_tls_on() -> None:
    """Its peer's address, TLS and the person's name, in UTF-8, are taken over."""
    found = seen(
        "10.1.2.3",
        X_FORWARDED_FOR="192.0.2.7",
        X_FORWARDED_PROTO="https",
        X_FORWARDED_USER="zoë".encode().decode("latin-1"),
    )
    assert (found["REMOTE_ADDR"], found["wsgi.url_scheme"], found[NAMED]) == ("192.0.2.7", "https", "zoë")


@pytest.mark.parametrize(
    "peer", ["192.0.2.1", "127.0.0.1", "::1", "", "unix:", "11.0.0.1", "::ffff:11.0.0.1"]
)
def test_an_untrusted_peer_is_not_believed(peer: str) -> None:
    """Nothing that an untrusted peer sends changes who it is, from where, or whether that was safe."""
    found = seen(
        peer,
        X_FORWARDED_FOR="10.0.0.1",
        X_FORWARDED_PROTO="https",
        X_FORWARDED_USER="ada",
        X_FORWARDED_HOST="evil.example",
        FORWARDED="for=10.0.0.1",
    )
    assert (found["REMOTE_ADDR"], found["wsgi.url_scheme"]) == (peer, "http")
    assert NAMED not in found
    assert [name for name in found if "FORWARDED" in name] == []


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("10.0.0.1", "1.2.3.4, 192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "1.2.3.4, 192.0.2.7, 10.0.0.2", "192.0.2.7"),
        ("10.0.0.1", "10.0.0.3", "10.0.0.3"),
        ("10.0.0.1", "1.2.3.4, <script>", "10.0.0.1"),
        ("10.0.0.1", "<script>, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("::ffff:10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("fd00::1", "2001:db8::1", "2001:db8::1"),
    ],
)
def test_the_client_is_the_nearest_untrusted_address(peer: str, forwarded_for: str, client: str) -> None:
    """What a client put into the header before the first proxy is not taken for its address."""
    assert seen(peer, X_FORWARDED_FOR=forwarded_for)["REMOTE_ADDR"] == client


@pytest.mark.parametrize(("said", "scheme"), [("http", "http"), ("https, http", "http"), ("HTTPS", "https")])
def test_the_nearest_proxy_says_whether_it_was_tls(said: str, scheme: str) -> None:
    """Of several words the last is the trusted proxy's own."""
    assert seen("10.0.0.1", X_FORWARDED_PROTO=said)["wsgi.url_scheme"] == scheme


def test_bad_networks_and_headers_are_named() -> None:
    """A network with host bits, a host name and a header that HTTP does not know are refused in one line."""
    for text in ("10.0.0.1/8", "proxy.example", "", "10.0.0.0/99"):
        with pytest.raises(ConfigError, match="bad trusted proxy"):
            parse_network(text)
    for text in ("X_Forwarded_User", "a b", "", "X:Y", "-x"):
        with pytest.raises(ConfigError, match="bad header"):
            require_header(text)
