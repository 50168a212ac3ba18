"""Runs the commands of the pages for operators of a fleet, and compares their output.

A page's ``$`` lines run on a queue like the page's; texts that differ from one machine to another (names,
ages, addresses) are not compared.
"""

import ast
import http.client
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache

from distq import Connection, Queue, Result, TerminalError
from distq.inspector import Inspector
from distq.redisio.commit import Commit
from distq.redisio.stream_store import StreamStore
from distq.workqueue import ItemExponentialFailureRateLimiter
from tests.docs.pages import ROOT
from tests.docs.reader import TIMEOUT, Reader, runs
from tests.support.eventually import eventually
from tests.support.ports import free_port

SHOWN_PID, SHOWN_HOST = "3638", "vm"
EXACT = {"queues", "items", "park"}
"""Commands whose numbers are compared; of the others only ages and the like are known beforehand."""

VARYING = (
    (r"\S+_[0-9a-f]{16}\b", "LEADER"),
    (r"\S+-[0-9a-f]{4}\b", "WORKER"),
    (r"\bat \S+[^\s,]", "at ADDRESS"),
    (r"\b\d+\.\d+\.\d+\b", "VERSION"),
    (r"\b\d+\.\d+\b|\b\d+(?:\.\d+)?[smhd](?:\d+[smhd])?\b", "N"),
)


@runs("$ distq queues", "$ distq workers", "$ distq leader", "$ distq items", "$ distq park")
def the_queue_looks_like_that(text: str, reader: Reader) -> None:
    """Run the commands on a queue with an item in each state; compare what they print."""
    with a_queue_in_trouble(reader) as environment:
        compare(text, reader, environment)


@runs("$ distq check --acl")
def the_user_is_that(text: str, reader: Reader) -> None:
    """Print it, to the last word."""
    line, _, output = text.removeprefix("$ ").partition("\n")
    assert reader.run(*shlex.split(line)).strip() == output.strip()


@runs("$ distq check")
def the_check_finds_that(text: str, reader: Reader) -> None:
    """Check the sandbox, with a Redis that keeps a log or none, as the page shows."""
    keeps_log = "OK    appendonly yes" in text
    redis = reader.sandbox.redis
    redis.execute("CONFIG", "SET", "appendonly", "yes" if keeps_log else "no")
    try:
        compare(text, reader, reader.environment | {"DISTQ_LEASE_NAMESPACE": "foos"})
    finally:
        redis.execute("CONFIG", "SET", "appendonly", "no")


def compare(text: str, reader: Reader, environment: Mapping[str, str]) -> None:
    """Run each ``$`` line and compare the lines that follow it."""
    for shown in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, output = shown.partition("\n")
        words = shlex.split(line)
        done = reader.finished(*words, environment=environment)
        printed = f"{done.stdout}{done.stderr}"
        seen = printed.replace(str(os.getpid()), SHOWN_PID).replace(socket.gethostname(), SHOWN_HOST)
        exact = words[1] in EXACT
        assert shape(seen, exact=exact) == shape(output, exact=exact), printed


def shape(output: str, *, exact: bool) -> list[list[str]]:
    """Return the words of each line, less the frames of a traceback and what varies."""
    whole = re.sub(r"(Traceback [^\n]*\n).*?(?=^ *distq\.errors)", r"\1", output, flags=re.M | re.S)
    for pattern, word in VARYING:
        whole = re.sub(pattern, word, whole)
    if not exact:
        whole = re.sub(r"\b\d+\b", "N", whole)
    return [line.split() for line in whole.splitlines()]


@contextmanager
def a_queue_in_trouble(reader: Reader) -> Iterator[dict[str, str]]:
    """Fill a database of its own with an item that is held and others; yield the variables for it."""
    with a_database(reader) as (url, connection):
        queue = fill(connection)
        try:
            yield reader.environment | {"DISTQ_REDIS_URL": url}
        finally:
            queue.close()


@contextmanager
def a_database(reader: Reader) -> Iterator[tuple[str, Connection]]:
    """Give an empty database of the sandbox's Redis that no other block uses."""
    url = reader.sandbox.environment["DISTQ_REDIS_URL"].rpartition("/")[0] + "/1"
    connection = Connection(url)
    connection.execute("FLUSHDB")
    try:
        yield url, connection
    finally:
        connection.close()


def fill(connection: Connection) -> Queue:
    """Bring an item into each state, and say who watches what; return the handle that holds one."""
    queue = Queue("foos", connection, rate_limiter=ItemExponentialFailureRateLimiter(60, 60))
    queue.add("default/gone")
    request = queue.get(0)
    try:
        raise TerminalError("image nginx:typo does not exist")
    except TerminalError as error:
        queue.settle(request, error)
    for _ in range(12):
        queue.add("default/bad", priority=-100)
        queue.settle(queue.get(0), ConnectionError("registry.example.com: connection refused"))
    queue.add("default/cache", priority=-100)
    queue.settle(queue.get(0), Result(requeue_after=600))
    queue.add("default/db", priority=-100)
    queue.get(0)
    for number, resource in enumerate(("apps/v1/Deployment", "example.com/v1/Foo")):
        about = {
            "resource": resource,
            "leader": "vm_b53ec782f3e35135",
            "synced": True,
            "lists": 1,
            "lag": 0.0,
            "led_since": connection.now() - 11_530,
        }
        if number:
            about |= {
                "error": "no Redis at redis.example.com:6379: connection refused. Check DISTQ_REDIS_URL",
                "error_at": connection.now() - 127,
            }
        store = StreamStore(connection, "foos", f"stream-{number}")
        store.commit(Commit(epoch="13", after="", new="14", batch="b", about=about))
    return queue


@runs("$ redis-cli")
def redis_has_that(text: str, reader: Reader) -> None:
    """Send the commands, on the page's queue at the page's time, and compare each line."""
    with the_queue_of_the_layout(reader) as queue:
        queue.get(0)
        for shown in re.split(r"^\$ redis-cli ", text, flags=re.MULTILINE)[1:]:
            line, _, output = shown.partition("\n")
            reply = queue.connection.execute(*shlex.split(line))
            lines = reply if isinstance(reply, list) else [reply]
            assert [one.decode() for one in lines] == output.splitlines()


@contextmanager
def the_queue_of_the_layout(reader: Reader) -> Iterator[Queue]:
    """Add what ``docs/internals/layout.md`` shows, at 1790000000 s by the server's clock."""
    with a_database(reader) as (_, connection):
        connection.server_time = 1_790_000_000_000_000
        queue = Queue("foos", connection)
        queue.add("prod/a", "prod/b")
        queue.add("prod/urgent", priority=5)
        queue.add("prod/low", priority=-100)
        queue.add("prod/later", after=60)
        queue.add("prod/later2", after=0.0001, priority=-100)
        yield queue
        queue.close()


@runs("$ curl")
def the_probe_answers(text: str, reader: Reader) -> None:
    """Start a worker with an address, and ask it."""
    port = free_port()
    line, _, output = text.partition("\n")
    page = line.partition(":8080")[2]

    def answer() -> str:
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        with suppress(OSError), closing(asked):
            asked.request("GET", page)
            return asked.getresponse().read().decode()
        return ""

    with reader.started("distq", "worker", "thumbs", "--http-address", f"127.0.0.1:{port}"):
        eventually(lambda: answer() == output)


@runs("2026-03-01T05:26:")
def the_trace_shows_that(text: str, reader: Reader) -> None:
    """Play it at the page's time: an item whose first worker dies and whose second one fails."""
    with a_database(reader) as (url, connection):
        connection.server_time = 1_772_342_777_102_000
        first, second, idle = handles = [Queue("foos", connection) for _ in range(3)]
        first.add("prod/later", after=3600)
        Inspector(connection).trace_on("foos", seconds=600)
        store, about = StreamStore(connection, "foos", "deployments"), {"resource": "apps/v1/Deployment"}
        store.commit(Commit(epoch="13", after="", new="4711", batch="b", keys=["prod/web"], about=about))
        connection.server_time += 2_000
        first.get(0)
        for handle in (idle, idle, second, second):  # the clock of claims moves at most 10 s a turn
            claimed = handle.turn([], 1).requests
            connection.server_time += 10_000_000
        second.settle(claimed[0], ConnectionError("registry.example.com"))
        printed = reader.run(
            "distq", "trace", "foos", "prod/web", **reader.environment | {"DISTQ_REDIS_URL": url}
        )
        for handle in handles:
            handle.close()
    assert _events(printed) == _events(text), printed


def _events(printed: str) -> list[str]:
    """Return the lines without their times, and without what names a worker or a claim."""
    lines = (re.sub(r"^\S+Z |by \S+-[0-9a-f]{4}\b|fence \d+", "", line) for line in printed.splitlines())
    return [" ".join(line.split()) for line in lines if line]


@runs("05:26:")
def the_logs_say_that(text: str, reader: Reader) -> None:
    """Find each message among those of the code."""
    for line in text.splitlines():
        message = re.sub(r"^\S+ (WARNING: |ERROR: )?", "", line)
        assert any(re.fullmatch(pattern, message) for pattern in messages()), message


@cache
def messages() -> frozenset[str]:
    """Return a pattern for each text that the code logs."""
    texts = {
        argument.value
        for path in (ROOT / "distq").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and is_logger(call.func)
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }
    telling = {text for text in texts if len(re.findall("[a-z]", re.sub(r"%(\.\d)?\w", "", text))) > 5}
    return frozenset(re.sub(r"%(\\\.\d)?\w", ".+", re.escape(text)) for text in telling)


def is_logger(method: ast.Attribute) -> bool:
    """Return whether a method is called of a module's logger."""
    return isinstance(method.value, ast.Name) and method.value.id in {"_logger", "logger"}


@runs("FROM distq")
def the_image_takes_that(text: str, reader: Reader) -> None:
    """Compare it with what the Dockerfile says of images on top of it; building takes a container engine."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "WORKDIR /srv" in dockerfile
    begin, copy = text.splitlines()
    assert begin in dockerfile
    assert "COPY foos.py /srv/" in dockerfile
    instruction, *files, folder = copy.split()
    assert (instruction, folder) == ("COPY", "/srv/")
    assert [file for file in files if not (reader.folder / file).is_file()] == []


@runs("import logging")
def the_queue_of_log_lines_writes_them(text: str, reader: Reader) -> None:
    """Check that a line that a program logs reaches stderr by the thread of the listener."""
    program = f"{text}\nlogging.warning('one line')\nlistener.stop()\n"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert done.stderr == "WARNING:root:one line\n"
