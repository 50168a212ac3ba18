"""Mistakes in a reconcile function are reported where they are, at once, and cost no item."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.controller.test_dispatcher import left_over
from tests.proofs.first_contact.conftest import PROGRAMS, TIMEOUT

pytestmark = pytest.mark.first_contact(19)
one_redis = pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True)

NOT_AWAITED = """
from distq import Controller

async def sync(request):
    pass

controller = Controller("foos", lambda request: sync(request))
"""
TWO_ARGUMENTS = """
from distq import Controller

def sync(client, request):
    pass

controller = Controller("foos", sync)
"""
DECORATED = """
import functools
from distq import Controller

def logged(function):
    @functools.wraps(function)
    def wrapper(request):
        print("syncing", request.key, flush=True)
        return function(request)
    return wrapper

@logged
async def sync(request):
    print("synced", request.key, flush=True)

controller = Controller("foos", sync)
"""
TEST = """
from distq import Controller, Queue
from distq.testing import Sandbox

def replicas_of(foo):
    return foo["spec"]["replicas"]

def sync(request):
    replicas_of({"spec": {}})

def test_sync():
    with Sandbox() as sandbox:
        Queue("foos").add("default/web")
        sandbox.run_until_idle(Controller("foos", sync))
"""


def worker(program: str, folder: Path, redis: str) -> "subprocess.Popen[str]":
    """Start ``distq worker`` with the program."""
    (folder / "foos.py").write_text(program)
    return subprocess.Popen(
        [PROGRAMS / "distq", "worker", "foos"],
        cwd=folder,
        env=os.environ | {"DISTQ_REDIS_URL": redis},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@one_redis
@pytest.mark.parametrize(
    ("program", "line"),
    [
        (
            NOT_AWAITED,
            "cannot run foos: its reconcile function returned a coroutine, which distq does not await. ",
        ),
        (TWO_ARGUMENTS, "bad reconcile: sync: missing a required argument: 'request'. "),
    ],
)
def test_a_worker_that_could_do_nothing_right_says_so_in_one_line(
    redis_server: EmbeddedValkey, connection: Connection, tmp_path: Path, program: str, line: str
) -> None:
    """It ends with status 2; items wait as before, and have no failure."""
    Queue("foos", connection).add("a", "b", "c")
    process = worker(program, tmp_path, redis_server.url)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 2
    assert line in errors.splitlines()[-1]
    assert "never awaited" not in errors
    assert "Traceback" not in errors
    assert left_over(connection, "foos") == {"ready": 3}


@one_redis
def test_a_decorated_async_def_is_run_as_one(
    redis_server: EmbeddedValkey, connection: Connection, tmp_path: Path
) -> None:
    """A decorator that logs each call is nothing special."""
    Queue("foos", connection).add("a")
    process = worker(DECORATED, tmp_path, redis_server.url)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["syncing a\n", "synced a\n"]
    process.terminate()
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0
    assert left_over(connection, "foos") == {}


def test_a_failing_test_shows_the_line_that_failed(tmp_path: Path) -> None:
    """It does not wait for a timeout, and shows the function's own error."""
    (tmp_path / "test_foos.py").write_text(TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_foos.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 1
    assert "E       KeyError: 'replicas'" in done.stdout
    assert 'foo["spec"]["replicas"]' in done.stdout
    assert "ReconcileFailed: foos default/web attempt 1 failed: KeyError: 'replicas'" in done.stdout
    assert "TimeoutError" not in done.stdout
