"""Everything that reads the text of others, as functions of bytes.

Each returns, or raises an error that its caller expects. Any other exception is a finding, and so is a wrong
answer, an AssertionError.
"""

import contextlib
import http.client
import io
import ipaddress
import json
import logging
import math
import os
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urljoin, urlsplit

import click
import msgspec
import urllib3
from flask import Flask
from kubernetes.config import kube_config
from opentelemetry.trace import NoOpTracerProvider
from werkzeug.test import EnvironBuilder, run_wsgi_app

from distq.cli import items, output
from distq.cli.logs import JsonFormatter, TextFormatter
from distq.cli.manifests.roles import SPECIAL_VERBS, VERBS, WRITES, Access
from distq.cli.output import since
from distq.cli.program import main as distq
from distq.client.client import Client
from distq.client.error_mapping import missing_object, response_error
from distq.client.http_answer import PIECE, plain_answer
from distq.client.http_connection import Exchange
from distq.client.raw import RawClient, WatchResponse
from distq.client.resources import Resource
from distq.config import Settings, host_and_port
from distq.controller.stream.committer import Known
from distq.dashboard import create_app, rq_rows
from distq.dashboard.item_id import ItemId
from distq.dashboard.proxies import Proxies, parse_network
from distq.dashboard.security import local_path
from distq.dashboard.users import parse_users
from distq.errors import ApiError, ConfigError, DistqError, InvalidKey, RedisRefused
from distq.informer import wire
from distq.informer.objects import is_older
from distq.informer.selectors import label_selector
from distq.informer.stored_object import split_meta_namespace_key
from distq.inspector import Inspector, ItemsAcross, Timestamp, View, past, reading
from distq.leaderelection.lease_lock import LeaseLock
from distq.leaderelection.redis_lock import RedisLock
from distq.opentelemetry import OpenTelemetrySpans
from distq.redisio.address import Address
from distq.redisio.checkpoints import checkpoint_of, is_listing
from distq.redisio.compare_and_set import VersionedRecord
from distq.redisio.connection import Connection
from distq.redisio.history import FINE
from distq.redisio.keys import bytes_of, is_key, named, shown, text_of, validate_key, validate_queue_name
from distq.redisio.queue_store import QueueStore
from distq.redisio.records import ClaimRecord, FailureRecord, StreamRecord, parse_fields
from distq.redisio.round_trips import Read
from distq.spans import link_of
from distq.testing.apiserver import EmulatedApiServer
from distq.testing.apiserver.manifests import read_manifest
from distq.testing.apiserver.resources import NAMESPACES
from distq.testing.apiserver.selectors import Selector
from distq.testing.apiserver.status import StatusError
from distq.workqueue.queue_ownership import Purpose
from tests import ROOT

NOWHERE = "redis://127.0.0.1:1/0"
FOO = Resource("example.com/v1", "Foo", "foos", namespaced=True)
NOW = 1_795_000_000.0

PARSERS: dict[str, Callable[[bytes], object]] = {}
"""The parsers by name; ``corpus/NAME`` has what to begin with."""


def parser(function: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Register a parser by its function's name."""
    PARSERS[function.__name__] = function
    return function


def parts_of(data: bytes, number: int) -> list[bytes]:
    """Cut the input at NULs into so many parts, empty ones at the end."""
    return (data.split(b"\x00", number - 1) + [b""] * number)[:number]


def is_inert(text: str) -> bool:
    """Return whether a terminal shows the text, on one line, and does nothing else."""
    return all(unicodedata.category(letter)[0] != "C" and letter not in "\u2028\u2029" for letter in text)


# The API server


@parser
def watch_line(data: bytes) -> None:
    """Read a line of a watch, and the object in it."""
    with contextlib.suppress(ApiError):
        _look_at(wire.decode_event(data, FOO).object)


@parser
def list_page(data: bytes) -> None:
    """Read a page of a list."""
    with contextlib.suppress(ApiError):
        for found in wire.decode_page(data, FOO).objects:
            _look_at(found)


def _look_at(found: wire.RawObject) -> None:
    is_older(found.version, "7")
    for look_at in (lambda: found.metadata, found.decode):
        with contextlib.suppress(ApiError, msgspec.MsgspecError, UnicodeDecodeError):
            look_at()


class _Chunks:
    """A response that arrives in pieces."""

    chunked = True

    def __init__(self, data: bytes) -> None:
        self._data = data

    def chunks(self) -> Iterator[bytes]:
        """Yield them; none is empty."""
        yield from filter(None, self._data.split(b"\x00"))


@parser
def watch_stream(data: bytes) -> None:
    """Read the lines of a watch, wherever the network cuts them."""
    broken = WatchResponse(cast("Any", _Chunks(data)), lambda error: ApiError(str(error)))
    lines: list[bytes] = []
    with contextlib.suppress(ApiError):
        lines += broken
    assert b"\n".join([*lines, b""]) == data.replace(b"\x00", b"")[: sum(map(len, lines)) + len(lines)]


class _Bytes(io.BytesIO):
    """Bytes that show to their reader's end how many it has read."""

    def close(self) -> None:
        """Stay open."""


class _Received:
    """A socket that has received so much, and then its end."""

    def __init__(self, data: bytes) -> None:
        self.data = _Bytes(data)

    def recv(self, size: int) -> bytes:
        """Return the next bytes."""
        return self.data.read(size)

    def settimeout(self, timeout: float) -> None:
        """Wait for nothing."""

    def makefile(self, mode: str) -> io.BytesIO:
        """Return what reads them."""
        del mode
        return self.data


@parser
def http_answer(data: bytes) -> None:
    """Read an answer in the short way, which finds what the long way finds, or leaves it to that."""
    sock: Any = _Received(data)
    received = sock.recv(PIECE)
    with contextlib.suppress(http.client.HTTPException):
        answer, ends = plain_answer(received, sock, math.inf)
        if answer is None:
            return
        rest: Any = _Received(data)
        head = Exchange.response_class(rest, method="GET")
        head.begin()
        assert (answer.status, answer.reason, answer.data) == (head.status, head.reason, head.read())
        assert answer.headers == head.headers
        assert not head.will_close
        assert ends == (rest.data.tell() == sock.data.tell())


@parser
def refusal(data: bytes) -> None:
    """Read an answer other than success: Retry-After, then the body."""
    header, body = parts_of(data, 2)
    headers = {"Retry-After": header.decode("latin-1")} if header else {}
    for status in (403, 404, 422, 429, 500):
        response = urllib3.HTTPResponse(io.BytesIO(body), headers=headers, status=status)
        error = response_error("GET /api", response, "kubeconfig")
        assert "\n" not in str(error)
        assert all(isinstance(word, str) for cause in error.causes for word in cause)
        if status == 404:
            missing_object(cast("Any", error))


class _Answering(Client):
    """A client whose server has the same answer to every request."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self._answer = answer

    def request(self, *_: Any, **__: Any) -> bytes:
        return self._answer


@parser
def discovery(data: bytes) -> None:
    """Read what the API server says it serves."""
    with contextlib.suppress(DistqError):
        _Answering(data).resolve("example.com/v1/Foo").path("ns", "name")


@parser
def lease(data: bytes) -> None:
    """Read the leader's record in a Lease, which any client with write access may have written."""
    with contextlib.suppress(ApiError):
        LeaseLock(_Answering(data), "ns", "distq-foos").get(timeout=1)


# Redis


@parser
def election(data: bytes) -> None:
    """Read the leader's record in Redis."""
    version, record = parts_of(data, 2)
    with contextlib.suppress(RedisRefused):
        RedisLock("foos", Connection(NOWHERE))._read(VersionedRecord(text_of(version), record))


@parser
def queue_records(data: bytes) -> None:
    """Read the values of a queue's hashes, as people see them, and its links."""
    ClaimRecord.parse(data)
    FailureRecord.parse(data)
    Purpose.parse(parse_fields(data))
    known = Known.parse(text_of(data))
    assert Known.parse(known.line()) == known
    is_listing(text_of(data)), checkpoint_of(text_of(data))
    assert link_of(data) in {"", text_of(data)}
    OpenTelemetrySpans(NoOpTracerProvider()).begin("reconcile", "consumer", {}, link=text_of(data)).end()
    if (stream := StreamRecord.parse(data)) is not None:
        stream.gone_since(NOW)
    store = QueueStore(Connection(NOWHERE), "foos")
    for stream_info in _answered(reading.stream_infos(store, NOW), [[b"s", data]]):
        output._record(stream_info)
    for worker in _answered(reading.worker_infos(store), [[b"7", data]], [1]):
        since(worker.since, NOW)
        json.dumps(output._record(worker))
        rq_rows.worker_row(worker)


@parser
def queue_history(data: bytes) -> None:
    """Read a chunk of a queue's past: durations are in order, and as long as they can be."""
    store = QueueStore(Connection(NOWHERE), "foos")
    (number,) = FINE.numbers(NOW, NOW)
    for sample in _answered(past.samples(store, NOW - 1, NOW + 1, 10), [[None, b"%d\n" % number + data]]):
        for p50, p99 in ((sample.waiting_p50, sample.waiting_p99), (sample.working_p50, sample.working_p99)):
            assert (p50 is None) == (p99 is None)
            assert p50 is None or 0 <= p50 <= p99 <= 16778
        json.dumps(output._record(sample))


@parser
def queue_item(data: bytes) -> None:
    """Read an item with the scores and records of each structure, as people see it."""
    member, ready, dirty, delayed, dead, claim, failure, deadline, suspected, held, arrived, held_back = (
        parts_of(data, 12)
    )
    found = [part or None for part in (ready, suspected, held_back, dirty, delayed, dead, held, arrived)]
    store = QueueStore(Connection(NOWHERE), "foos")
    records = [[claim or None], [failure or None]]
    holder, worker = [[deadline or None], [claim or None], [ready, dead]], [[b"7", deadline]]
    replies = [[[score] for score in found] + records, holder if held else worker]
    for item in _answered(reading.item_infos(store, [member]), *replies):
        facts = [f"{name}  {value}" for name, value in items._item_facts(item, NOW)]
        assert all(map(is_inert, facts)), facts
        json.dumps(output._record(item))


def _answered(read: Read[Any], *replies: Any) -> Any:
    """Return what a read makes of these replies."""
    answers = iter(replies)
    try:
        next(read)
        while True:
            read.send(next(answers))
    except StopIteration as end:
        return end.value


@parser
def item_key(data: bytes) -> None:
    """Read a member of a sorted set, which may be no key, and a key from a user."""
    text = text_of(data)
    assert bytes_of(text) == data
    assert shown(data).isprintable() or any(letter in text for letter in shown(data))
    for read in (validate_key, split_meta_namespace_key, FOO.key_path, validate_queue_name, named):
        with contextlib.suppress(ConfigError):
            cast("Callable[[str], Any]", read)(text)
    with contextlib.suppress(InvalidKey, UnicodeDecodeError):
        assert is_key(text, len(data)) == (validate_key(data.decode()) == data)


# What people type and mount


@parser
def item_id(data: bytes) -> None:
    """Read the name of an item in a URL of the dashboard."""
    if (found := ItemId.parse(text_of(data))) is not None:
        assert str(found) == text_of(data)


@parser
def dashboard_request(data: bytes) -> None:
    """Answer a request to the dashboard: Host, path, query."""
    host, path, query = parts_of(data, 3)
    environ = EnvironBuilder(query_string=quote(query, safe="=&%+/?")).get_environ()
    environ["HTTP_HOST"] = host.decode("latin-1")
    environ["PATH_INFO"] = "/" + path.decode("latin-1")  # of the builder's own a second / would begin a host
    _, status, headers = run_wsgi_app(_dashboard(), environ)
    assert int(status[:3]) < 500, status
    assert "script-src 'self';" in headers["Content-Security-Policy"]


@parser
def users_file(data: bytes) -> None:
    """Read the users of the dashboard; no message quotes a text that may be a password."""
    with contextlib.suppress(ConfigError):
        for name, entry in parse_users(text_of(data), Path("users")).items():
            assert (name, name.isprintable()) == (entry.person.name, True)


@parser
def proxy_headers(data: bytes) -> None:
    """Read a proxy's words about a request: its own address, the client's, the protocol, the user."""
    peer, for_whom, over, who = (part.decode("latin-1") for part in parts_of(data, 4))
    environ = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": for_whom, "HTTP_X_FORWARDED_PROTO": over}
    environ |= {"HTTP_X_USER": who, "wsgi.url_scheme": "http"}
    Proxies(lambda *_: [], [parse_network("10.0.0.0/8")], "X-User")(environ, lambda *_: lambda _: None)
    if environ["REMOTE_ADDR"] != peer:
        ipaddress.ip_address(environ["REMOTE_ADDR"])
    assert not any("FORWARDED" in name for name in environ)


@parser
def onward_path(data: bytes) -> None:
    """Read where a form wants to lead: nowhere but to this server."""
    if (path := local_path(text_of(data))) is not None:
        assert urlsplit(urljoin("https://here.example/", path)).netloc == "here.example"


@cache
def _dashboard() -> Flask:
    app = create_app(cast("Inspector", _NoQueue()))
    app.testing = True
    return app


class _NoQueue:
    """An Inspector of an empty Redis."""

    prefix = "distq"

    def view(self, *_: object, **__: object) -> View:
        return View(Timestamp(0.0), [], 0)

    def failing(self, *_: object) -> ItemsAcross:
        return ItemsAcross(Timestamp(0.0), [], 0, 0, 0)

    def find(self, key: str, *_: object) -> ItemsAcross:
        named(key)
        return self.failing()

    def __getattr__(self, _: str) -> Callable[..., list[Any]]:
        return lambda *_, **__: []


@parser
def settings(data: bytes) -> None:
    """Read the environment, and what is shown of it."""
    lines = (line.partition("=") for line in text_of(data).split("\n"))
    with contextlib.suppress(ConfigError):
        chosen = Settings.from_env({f"DISTQ_{name}": value for name, _, value in lines})
        json.dumps(chosen.masked())
        repr(chosen)


@parser
def redis_url(data: bytes) -> None:
    """Read a URL of Redis; what is secret in it is not seen in what is shown."""
    text = text_of(data)
    chosen = Settings(redis_url=text)
    shown_url = str(chosen.masked()["redis_url"])
    with contextlib.suppress(ConfigError):
        address = Address(text, chosen)
        options, _ = address.options, (address.where, address.user)
        password = options.get("password") or ""
        assert (
            len(password) < 4
            or password in "redis://:***@"
            or password
            not in shown_url.replace(str(options.get("host")), "").replace(str(options.get("username")), "")
        )
        address.pool(1.0).make() if "path" not in options else None
    with contextlib.suppress(ConfigError):
        host_and_port(text)


@parser
def kubeconfig(data: bytes) -> None:
    """Read a kubeconfig; nothing that it names is run or asked."""
    file = Path(_folder()) / "config"
    file.write_bytes(data)
    with contextlib.suppress(ConfigError):
        client = RawClient(file)
        client.authorities()
        assert client.namespace
        assert client.server
    kube_config._cleanup_temp_files()


@cache
def _folder() -> str:
    return tempfile.mkdtemp(prefix="distq-fuzz-")


@parser
def manifest(data: bytes) -> None:
    """Read a manifest that the emulated API server loads."""
    file = Path(_folder()) / "manifest.yaml"
    file.write_bytes(data)
    with contextlib.suppress(ConfigError):
        for document in read_manifest(file):
            msgspec.json.encode(document.content)
        _emulator().load(file)


@cache
def _emulator() -> EmulatedApiServer:
    server = EmulatedApiServer()
    server.start()
    server.load(ROOT / "workers" / "sample-controller-crd.yaml")
    return server


@parser
def selector(data: bytes) -> None:
    """Read a label selector, and a label that it is asked about."""
    text, value = (text_of(part) for part in parts_of(data, 2))
    with contextlib.suppress(ConfigError):
        label_selector(text)({"app": value, value: text})
    with contextlib.suppress(StatusError):
        Selector(NAMESPACES, "", text, value)


@parser
def command_line(data: bytes) -> None:
    """Read the words after ``distq``; the command is not run."""
    name, *words = text_of(data).split("\x00")
    command = distq.commands.get(name)
    if command is None or "--help" in words or "-h" in words:
        return
    with contextlib.suppress(click.ClickException, click.exceptions.Exit, ConfigError):
        given: Mapping[str, Any] = command.make_context(name, words).params
        names = {setting for setting in Settings.__dataclass_fields__ if setting in given}
        Settings.from_env({}, **{setting: given[setting] for setting in names})


@parser
def access(data: bytes) -> None:
    """Read what ``distq manifests --writes`` names."""
    with contextlib.suppress(ConfigError):
        found = Access.parse(text_of(data), WRITES)
        assert set(found.verbs) <= {*VERBS, *SPECIAL_VERBS}
        assert found.verbs


# What we write


@parser
def log_line(data: bytes) -> None:
    """Write a log record of any text: one line that a terminal shows as it is, a traceback indented below."""
    message, key, error = (text_of(part) for part in parts_of(data, 3))
    record = logging.LogRecord("distq", logging.WARNING, __file__, 1, "%s", (message,), _raised(error))
    record.stack_info = error
    vars(record).update({"key": key, key or "queue": error, "level": "info"})
    first, *others = TextFormatter().format(record).split("\n")
    assert is_inert(first), first
    assert all(is_inert(line) and line.startswith("  ") for line in others), others
    line = JsonFormatter().format(record)
    assert line.isascii(), line
    assert line.isprintable(), line
    assert json.loads(line)["level"] == "warning"


def _raised(error: str) -> Any:
    try:
        raise ValueError(error)
    except ValueError as caught:
        return type(caught), caught, caught.__traceback__


def forbid_the_world() -> None:
    """Let no input start a program or reach a network: a kubeconfig may name both."""
    import socket
    import subprocess

    def refuse(*_: object, **__: object) -> Any:
        raise OSError("not while fuzzing")

    subprocess.Popen.__init__ = refuse  # type: ignore[method-assign]
    socket.create_connection = refuse
    os.environ.pop("KUBECONFIG", None)
