"""Each wrong address of a Redis gets its own error, with its remedy and without its secrets."""

import socket
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from distq.config import Settings
from distq.errors import ConfigError, DistqError, RedisRefused, RedisUnavailable
from distq.redisio.connection import Connection
from distq.redisio.redis_url import SCHEMES
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.support.parts import program
from tests.support.ports import free_port
from tests.support.redis_servers import server_of

pytestmark = pytest.mark.first_contact(14)

SECRET = "s3cr3t"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate for this machine, and its key beside it."""
    program("openssl", package="openssl")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", "key.pem", "-out", "cert.pem"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem"


@pytest.fixture(scope="module")
def tls_server(certificate: Path) -> Iterator[EmbeddedValkey]:
    """Run a Redis that takes nothing but TLS, whose ``port`` is that one."""
    port = free_port()
    options = [
        *("--tls-port", str(port), "--tls-auth-clients", "no", "--tls-cert-file", str(certificate)),
        *("--tls-key-file", str(certificate.with_name("key.pem")), "--tls-ca-cert-file", str(certificate)),
    ]
    with EmbeddedValkey(server=server_of("redis7"), options=options) as server:
        server.port = port
        yield server


def refused(url: str, kind: type[DistqError]) -> str:
    """Return the message of the first use of this address."""
    with pytest.raises(kind) as caught:
        Connection(url, settings=Settings()).execute("PING")
    assert type(caught.value) is kind
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_the_schemes_that_work_are_advised() -> None:
    """All of them, where it is none of them."""
    assert refused("http://a", ConfigError).endswith(f"Use {SCHEMES}.")


def test_a_scheme_that_was_left_out_is_advised() -> None:
    """An address alone is what most people try first."""
    assert refused("localhost:6379", ConfigError).endswith("no scheme. Begin it with redis:// or rediss://.")


def test_a_database_that_there_is_not(redis_server: EmbeddedValkey) -> None:
    """The server's own number is said."""
    message = refused(f"redis://127.0.0.1:{redis_server.port}/99", ConfigError)
    assert message == (
        f"no database 99 at 127.0.0.1:{redis_server.port}: this server has 16 databases. "
        "Use one from 0 to 15."
    )


def test_a_database_of_a_server_that_does_not_say_how_many(redis_server: EmbeddedValkey) -> None:
    """A user without CONFIG, as on managed servers, gets the cause nevertheless."""
    admin = Connection(redis_server.url)
    admin.execute("ACL", "SETUSER", "plain", "reset", "on", f">{SECRET}", "~*", "&*", "+@all", "-config")
    try:
        message = refused(f"redis://plain:{SECRET}@127.0.0.1:{redis_server.port}/99", ConfigError)
    finally:
        admin.execute("ACL", "DELUSER", "plain")
        admin.close()
    assert message == (
        f"no database 99 at 127.0.0.1:{redis_server.port}: this server has fewer. Use database 0."
    )


def test_a_password_where_none_is_set(redis_server: EmbeddedValkey) -> None:
    """It is not called wrong."""
    message = refused(f"redis://:{SECRET}@127.0.0.1:{redis_server.port}/0", RedisRefused)
    assert message == (
        f'Redis at 127.0.0.1:{redis_server.port} refused user "default": a password was given where none is '
        "set. Leave it out of the URL and of DISTQ_REDIS_PASSWORD."
    )


def test_tls_against_a_plain_port(redis_server: EmbeddedValkey) -> None:
    """The server waits for the end of a supposed command; distq asks again in plain words."""
    began = time.monotonic()
    message = refused(f"rediss://:{SECRET}@127.0.0.1:{redis_server.port}/0", ConfigError)
    assert message == (
        f"no TLS at 127.0.0.1:{redis_server.port}: that port answers without it. Use redis:// there."
    )
    assert time.monotonic() - began < 9


def test_plain_against_a_tls_port(tls_server: EmbeddedValkey) -> None:
    """A connection that is closed at once has its cause named."""
    message = refused(f"redis://:{SECRET}@127.0.0.1:{tls_server.port}/0", ConfigError)
    assert message == (
        f"TLS only at 127.0.0.1:{tls_server.port}: that port takes nothing else. Use rediss:// there."
    )


def test_a_certificate_of_an_unknown_authority(tls_server: EmbeddedValkey, certificate: Path) -> None:
    """The setting that would trust it is named, and does."""
    url = f"rediss://127.0.0.1:{tls_server.port}/0"
    message = refused(url, RedisUnavailable)
    assert message.startswith(f"no Redis at 127.0.0.1:{tls_server.port}: certificate not trusted, self")
    assert message.endswith(". Set DISTQ_REDIS_CA_FILE to the certificate of its authority.")
    trusting = Connection(url, settings=Settings(redis_ca_file=certificate))
    assert trusting.execute("PING") == b"PONG"
    trusting.close()


def test_a_certificate_that_is_not_checked(
    tls_server: EmbeddedValkey, caplog: pytest.LogCaptureFixture
) -> None:
    """It works, and the start and the check say what it means, once."""
    connection = Connection(f"rediss://127.0.0.1:{tls_server.port}/0?ssl_cert_reqs=none", settings=Settings())
    connection.execute("PING")
    connection.with_timeout(5.0).execute("PING")
    said = (
        f"the certificate of Redis at 127.0.0.1:{tls_server.port} is not checked (ssl_cert_reqs=none): "
        "a man in the middle could read the password and all data. "
        "Set DISTQ_REDIS_CA_FILE to the certificate of its authority instead."
    )
    assert [record.getMessage() for record in caplog.records] == [said]
    assert f"WARN  {said}" in connection.check()
    connection.close()


def test_a_silent_port_is_reported_after_three_seconds() -> None:
    """It gets another error than one that refuses, and is not tried over and over."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        began = time.monotonic()
        message = refused(f"redis://127.0.0.1:{port}", RedisUnavailable)
        took = time.monotonic() - began
    assert message == f"no Redis at 127.0.0.1:{port}: connected, but no answer. Check its URL."
    assert 3 <= took < 9


def test_a_port_of_something_else() -> None:
    """A web server answers, but not as Redis does."""

    class Page(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as web:
        Thread(target=web.serve_forever, daemon=True).start()
        where = f"127.0.0.1:{web.server_port}"
        message = refused(f"redis://{where}", RedisUnavailable)
        web.shutdown()
    assert message == f"no Redis at {where}: the server there is no Redis. Check its URL."


def test_check_names_the_cause_too(redis_server: EmbeddedValkey) -> None:
    """``distq check`` asks as closely as the first use does."""
    (line,) = Connection(f"redis://127.0.0.1:{redis_server.port}/99").check()
    assert line.startswith("FAIL  no database 99 at ")
