"""A queue with an item in every state, and the dashboard that shows it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from flask import Flask
from flask.testing import FlaskClient
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from werkzeug.security import check_password_hash

from distq.dashboard import create_app, users
from distq.errors import RetryAfter, TerminalError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.support.parts import program

NOWHERE = "redis://127.0.0.1:1/0"
HOSTILE_KEYS = [
    "default/web",
    "a b?#&c=d;e",
    "naïve/☃/日本",
    "q\"uo'te",
    "lit%2Feral",
    "~7E~",
    "..",
    "a:b:c",
    "ends.json",
    "<script>document.title='pwned'</script>",
    '"><img src=x onerror="document.title=\'pwned\'">',
    "<%= document.title='pwned' %>",
    "{{ 7 * 7 }}",
    "é" * 512,
]


_checked = cache(check_password_hash)


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute once for all tests whether a password has a hash, which takes a tenth of a second each time."""
    monkeypatch.setattr(users, "check_password_hash", _checked)


class CompiledTemplates(BytecodeCache):
    """Keeps what templates were compiled to, as each application of a test would compile them anew."""

    def __init__(self) -> None:
        self._compiled: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give a template its code, if one with the same text was compiled before."""
        if bucket.key in self._compiled:
            bucket.bytecode_from_string(self._compiled[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template."""
        self._compiled[bucket.key] = bucket.bytecode_to_string()


_compiled = CompiledTemplates()


@pytest.fixture(autouse=True)
def compiled_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile each template once for all applications of this process, which takes 10 ms each time."""
    monkeypatch.setattr(Flask, "jinja_options", {"bytecode_cache": _compiled})


@pytest.fixture
def queue(connection: Connection) -> Iterator[Queue]:
    """Open the queue ``foos``."""
    handle = Queue("foos", connection)
    yield handle
    handle.close()


@pytest.fixture
def every_state(queue: Queue) -> Queue:
    """Fill the queue with one item in each state: dead, delayed by a failure, processing and dirty, ready."""
    for key, outcome in (
        ("ns/dead", TerminalError("no such image")),
        ("ns/delayed", RetryAfter(180, "slow down")),
    ):
        queue.add(key)
        queue.settle(queue.get(timeout=5), outcome)
    queue.add("ns/processing")
    queue.get(timeout=5)
    queue.add("ns/processing", "ns/ready", priority=7)
    return queue


@pytest.fixture
def browser(connection: Connection) -> FlaskClient:
    """Give an HTTP client of the dashboard, on real Redis."""
    return create_app(Inspector(connection)).test_client()


@pytest.fixture
def offline() -> FlaskClient:
    """Give an HTTP client of a dashboard whose Redis does not answer."""
    return create_app(Inspector(NOWHERE)).test_client()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Find the browser's program; skip, or fail in CI, where this machine has none."""
    return program("chromium", "chromium-browser", "google-chrome", package="chromium")


SERVE = """
import logging, sys
from distq.dashboard import serve
from distq.inspector import Inspector
logging.basicConfig(level="INFO", format="%(message)s")
serve(Inspector(sys.argv[1]), port=0)
"""


@contextmanager
def dashboard_of(redis_url: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the dashboard in a process of its own; give its URL and the process."""
    command = [sys.executable, "-W", "error", "-c", SERVE, redis_url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            line = process.stderr.readline()
            url = re.match(r"http://127\.0\.0\.1:[0-9]+", line)
            assert url, line + process.stderr.read()
            yield url[0], process
        finally:
            process.terminate()
            process.wait(timeout=30)


@pytest.fixture
def served(connection: Connection, redis_server: EmbeddedValkey) -> Iterator[str]:
    """Give the URL of a dashboard that runs in a process of its own."""
    with dashboard_of(redis_server.url) as (url, _):
        yield url


@contextmanager
def dashboard(redis: EmbeddedValkey, *arguments: str) -> Iterator[str]:
    """Run ``distq dashboard`` as people do; give its URL."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("DISTQ_")}
    command = [sys.executable, "-m", "distq", "dashboard", "--bind", "127.0.0.1:0", *arguments]
    settings = own | {"DISTQ_REDIS_URL": redis.url}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=settings) as process:
        assert process.stderr
        try:
            line = process.stderr.readline()
            url = re.search(r"http://[0-9.:]+[^ ]*", line)
            assert url, line + process.stderr.read()
            yield url[0].rstrip("/")
        finally:
            process.terminate()
            process.wait(timeout=30)
