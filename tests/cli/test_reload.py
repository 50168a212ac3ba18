"""``distq run --reload``: the newest code runs, and nothing of the work is lost or done twice at once."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine
from tests.support.eventually import eventually

FOOS = """
import json, time
from distq import Controller
from version import VERSION

def note(**what):
    with open("journal", "a") as journal:
        journal.write(json.dumps({"version": VERSION, **what}) + chr(10))

def reconcile(request):
    note(key=request.key, event="began")
    time.sleep(0.02)
    note(key=request.key, event="ended")

controller = Controller("foos", reconcile, concurrency=4)
"""
TIMEOUT = 60.0


class Developer:
    """Edits the program that a terminal reloads, and reads what it did."""

    def __init__(self, distq: CommandLine, redis: Connection) -> None:
        self.distq = distq
        self.queue = Queue("foos", redis)
        self.log = distq.folder / "log"
        distq.module("foos", FOOS)
        self.edit("VERSION = 1")

    def edit(self, source: str) -> None:
        """Save another version.py."""
        self.distq.module("version", source)

    @contextmanager
    def running(self, *arguments: str, **settings: str) -> "Iterator[subprocess.Popen[str]]":
        """Run ``distq run foos --reload`` until the end of the block."""
        with self.log.open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "distq", "run", "foos", "--reload", *arguments],
                cwd=self.distq.folder,
                env=self.distq.environment | settings,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the child, too
            process.wait()

    def entries(self) -> list[dict[str, Any]]:
        """Return what the program wrote of its reconciles."""
        journal = self.distq.folder / "journal"
        return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []

    def wait_for_version(self, version: int) -> None:
        """Add keys until one of them is reconciled by this version."""
        keys = iter(range(1_000_000))

        def ran() -> bool:
            self.queue.add(f"probe-{version}-{next(keys) // 20}")
            return any(entry["version"] == version for entry in self.entries())

        eventually(ran, self.log.read_text, timeout=TIMEOUT)

    def wait_for_line(self, pattern: str) -> None:
        """Wait until the program has printed it."""
        eventually(lambda: re.search(pattern, self.log.read_text()), self.log.read_text, timeout=TIMEOUT)


@pytest.fixture
def developer(distq: CommandLine, redis: Connection) -> Iterator[Developer]:
    """Give someone with a controller, the first version of it."""
    developer = Developer(distq, redis)
    yield developer
    developer.queue.close()


def children_of(process: int) -> list[int]:
    """Return the processes that one has started."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.mark.first_contact(20)
def test_the_new_code_goes_on_with_the_work(developer: Developer, redis: Connection) -> None:
    """No key is lost between two versions, and none runs twice at once."""
    with developer.running() as process:
        developer.wait_for_version(1)
        for version in (2, 3):
            developer.queue.add(*(f"key-{version}-{number}" for number in range(200)))
            developer.edit(f"VERSION = {version}")
            developer.wait_for_version(version)
        eventually(lambda: not Inspector(redis).items("foos"), timeout=TIMEOUT)
        process.terminate()
        assert process.wait(TIMEOUT) == 0
    of_key = defaultdict(list)
    for entry in developer.entries():
        of_key[entry["key"]].append(entry["event"])
    assert {f"key-{version}-{number}" for version in (2, 3) for number in range(200)} <= set(of_key)
    for key, events in of_key.items():
        assert events == ["began", "ended"] * (len(events) // 2), key
    assert Inspector(redis).workers("foos") == []


def test_an_error_in_a_module_is_shown_and_the_next_change_tries_again(developer: Developer) -> None:
    """A module with an error is loaded once a later save corrects it."""
    with developer.running() as process:
        developer.wait_for_version(1)
        developer.edit("VERSION = = 2")
        developer.wait_for_line(r"version\.py changed; starting anew")
        developer.wait_for_line(r"SyntaxError(.|\n)*cannot import foos")
        developer.wait_for_line(r"ended with status 2; starts again at the next change")
        developer.edit("VERSION = 3")
        developer.wait_for_version(3)
        process.terminate()
        assert process.wait(TIMEOUT) == 0


@pytest.mark.parametrize(
    ("number", "status"),
    [
        pytest.param(signal.SIGTERM, 0, marks=pytest.mark.slow),  # ends the other tests' programs, too
        (signal.SIGINT, 130),
        pytest.param(signal.SIGHUP, 0, marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_both(developer: Developer, number: signal.Signals, status: int) -> None:
    """The program gets the signal, and its status is the command's."""
    with developer.running() as process:
        developer.wait_for_version(1)
        (child,) = children_of(process.pid)
        process.send_signal(number)
        assert process.wait(TIMEOUT) == status
        assert not Path(f"/proc/{child}").exists()


def test_a_signal_ends_the_wait_for_a_change(developer: Developer) -> None:
    """The program that could not run has said with which status."""
    developer.edit("raise ValueError")
    with developer.running() as process:
        developer.wait_for_line("starts again at the next change")
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 2


def test_a_change_within_one_second_is_not_mistaken_for_the_version_before(developer: Developer) -> None:
    """Python compares whole seconds and sizes of a source with its cached file, and here both are equal."""
    version = developer.distq.folder / "version.py"
    second = int(version.stat().st_mtime)
    os.utime(version, (second, second))
    developer.distq.environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as testers may have it
    with developer.running():
        developer.wait_for_version(1)
        developer.edit("VERSION = 2")
        os.utime(version, (second + 0.5, second + 0.5))
        developer.wait_for_version(2)


def test_only_sources_are_watched(developer: Developer) -> None:
    """Not what a virtualenv or an editor keeps; a new module is, also in a new package."""
    folder = developer.distq.folder
    for name in (".hidden/a.py", "env/pyvenv.cfg", "env/lib/b.py", "data.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("1")
    with developer.running():
        developer.wait_for_version(1)
        assert f"watching 2 source files in {folder}\n" in developer.log.read_text()
        for name in (".hidden/a.py", "env/lib/b.py", "data.json"):
            (folder / name).write_text("22")
        developer.distq.module("package.new", "")
        developer.wait_for_line(r"reload: package/new\.py changed; starting anew")
    assert developer.log.read_text().count("changed; starting anew") == 1


def test_a_package_elsewhere_is_watched_too(
    developer: Developer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The one that the target names, wherever Python finds it."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (developer.distq.folder / "foos.py").rename(elsewhere / "foos.py")
    with developer.running(PYTHONPATH=str(elsewhere)):
        developer.wait_for_version(1)
        (elsewhere / "foos.py").write_text(FOOS + "\nVERSION = 2\n")
        developer.wait_for_version(2)


def test_a_pod_is_warned(developer: Developer) -> None:
    """There it would end reconciles at each change of a mounted file; tools that sync files do want it."""
    with developer.running(KUBERNETES_SERVICE_HOST="10.0.0.1"):
        developer.wait_for_line("WARNING: --reload is for development: in a pod let a rollout bring new code")
        developer.wait_for_version(1)


def test_help_names_its_purpose(distq: CommandLine) -> None:
    """It is no way to deploy, and the help says so."""
    assert "For development only." in " ".join(distq("run", "--help").stdout.split())
