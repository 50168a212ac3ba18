"""A run of the suite says what it left out, and leaves nothing out in CI."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests import ROOT
from tests.support.redis_servers import find_server
from tests.support.runs import in_order

pytestmark = pytest.mark.first_contact(21)

SUITE = """
import subprocess
import sys
import pytest
from tests.support.parts import missing, program

@pytest.mark.parametrize("number", range(3))
def test_of_a_part(number):
    missing("no zookeeper: apt-get install zookeeper")

def test_of_another_part():
    program("zookeeper-shell", package="zookeeper")

@pytest.mark.slow
def test_that_takes_long():
    pass

@pytest.mark.random
def test_that_draws():
    script = "import signal; print(signal.SIG_IGN in map(signal.getsignal, (signal.SIGINT, signal.SIGHUP)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\\n"
"""


def run(tmp_path: Path, *arguments: str, **settings: str) -> list[str]:
    """Run a suite of six tests with what runs ours, under nohup; return the lines that it prints."""
    (tmp_path / "suite").mkdir(exist_ok=True)
    (tmp_path / "suite" / "test_parts.py").write_text(SUITE)
    own = {name: text for name, text in os.environ.items() if not name.startswith(("CI", "PYTEST"))}
    own |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ("-p", "xdist.plugin", "-p", "tests.support.runs", "-p", "tests.support.report")
    ignored = (signal.SIGINT, signal.SIGHUP)
    handlers = [signal.signal(number, signal.SIG_IGN) for number in ignored]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *plugins, *arguments],
            cwd=tmp_path,
            env=own | settings,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for number, handler in zip(ignored, handlers, strict=True):
            signal.signal(number, handler)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_tests_that_are_left_out_are_one_line_a_part(tmp_path: Path) -> None:
    """How many tests, why, and what gets it; and what tests start can be interrupted."""
    printed = run(tmp_path, "suite")
    assert "    3  no zookeeper: apt-get install zookeeper" in printed
    assert "    1  no zookeeper-shell: apt-get install zookeeper" in printed
    assert "    1  slow, run by CI: pytest -m slow, or name the file" in printed
    assert "drew little: CI takes 5,000 steps a server" in printed
    assert "1 passed, 5 skipped" in printed[-1]


def test_ci_leaves_nothing_out(tmp_path: Path) -> None:
    """A missing part is a failure, and slow tests run."""
    assert "4 failed, 2 passed" in run(tmp_path, "suite", CI="true")[-1]


@pytest.mark.slow
def test_a_sample_is_the_same_each_time_and_has_the_promises(tmp_path: Path) -> None:
    """A tenth by the tests' ids; all of the tests of conformance."""
    for folder, tests in {"proofs/conformance": 5, "other": 200}.items():
        (tmp_path / "tests" / folder).mkdir(parents=True)
        body = "".join(f"def test_{number}():\n    pass\n" for number in range(tests))
        (tmp_path / "tests" / folder / f"test_{Path(folder).name}.py").write_text(body)
    first, second = (run(tmp_path, "--sample", "-v", "tests") for _ in range(2))
    passed = sorted(line.split()[0] for line in first if " PASSED " in line)
    assert sum("conformance" in test for test in passed) == 5
    assert 10 <= sum("other" in test for test in passed) <= 30
    assert passed == sorted(line.split()[0] for line in second if " PASSED " in line)


SERVERS = """
import pytest

@pytest.fixture(scope="session", params=["redis7", "redis6", "valkey9"])
def redis_server(request):
    return request.param

@pytest.mark.parametrize("number", range(30))
def test_of_a_page(redis_server, number):
    pass

@pytest.mark.conformance("WQ-05")
def test_of_a_promise(redis_server):
    pass

@pytest.mark.slow
def test_that_takes_long(redis_server):
    pass

@pytest.mark.night
def test_that_takes_the_night(redis_server):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("passes", "arguments", "ci"),
    [
        ({"dashboard": 34, "workqueue": 36, "redisio": 94}, ["tests"], "true"),
        ({"dashboard": 31, "workqueue": 31, "redisio": 31}, ["tests"], ""),
        ({"dashboard": 93, "workqueue": 93, "redisio": 93}, ["--every-server", "tests"], ""),
    ],
    ids=["CI", "desk", "every server"],
)
def test_tests_that_ask_nothing_of_redis_run_on_one_server_of_each_kind(
    tmp_path: Path, passes: dict[str, int], arguments: list[str], ci: str
) -> None:
    """All kinds have their share; in CI, unless slow, tests of Redis run on each, of scripts by one row."""
    for folder in passes:
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text(SERVERS)
    lines = run(tmp_path, "-v", *arguments, CI=ci)
    passed = [line.split()[0] for line in lines if " PASSED " in line]
    assert Counter(test.split("/")[1] for test in passed) == passes
    here = [kind for kind in ("redis7", "redis6", "valkey9") if ci or find_server(kind)]
    assert all(any(f"page[{kind}" in test for test in passed) for kind in here)


CLUSTERS = """
import pytest

SERVERS = [("emulator", "redis7"), ("emulator", "redis6"), ("real", "valkey9")]

@pytest.mark.parametrize(("api_server", "redis"), SERVERS)
@pytest.mark.parametrize("number", range(30))
def test_of_a_real_stream(api_server, redis, number):
    pass

@pytest.mark.parametrize("api_server", ["real"])
def test_of_rights(api_server):
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of_streams", "of_informers", "arguments", "ci"),
    [(31, 61, ["tests"], "true"), (31, 61, ["tests"], ""), (91, 91, ["--every-server", "tests"], "")],
    ids=["CI", "desk", "every server"],
)
def test_tests_that_ask_nothing_of_api_servers_run_on_one_of_them(
    tmp_path: Path, of_streams: int, of_informers: int, arguments: list[str], ci: str
) -> None:
    """At a desk the emulated one, in CI either; suites about API servers run on both."""
    for folder in ("controller", "informer"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text(CLUSTERS)
    lines = run(tmp_path, "-v", *arguments, CI=ci)
    passed = [line.split()[0] for line in lines if " PASSED " in line]
    assert len([test for test in passed if "controller" in test]) == of_streams
    assert len([test for test in passed if "informer" in test]) == of_informers
    on_real = [test for test in passed if "controller" in test and "-real-" in test]
    assert bool(on_real) == bool(ci or "--every-server" in arguments)


SOME = """
import pytest

@pytest.mark.parametrize("number", range(20))
def test_of_a_page(number):
    pass

@pytest.mark.random
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(2))
def test_that_draws(number):
    pass

@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(2))
def test_of_a_fleet(number):
    pass
"""


@pytest.mark.slow
def test_fleets_begin_first_and_quick_tests_come_last(tmp_path: Path) -> None:
    """Each process of a run has its share: the last one would go on alone."""
    (tmp_path / "tests" / "workqueue").mkdir(parents=True)
    (tmp_path / "tests" / "workqueue" / "test_turns.py").write_text(SOME.replace("_a_page", "_a_turn"))
    (tmp_path / "tests" / "test_some.py").write_text(SOME)
    lines = run(tmp_path, "-v", "-n2", "--dist=worksteal", "tests")
    passed = [re.match(r"\[(gw\d)\].* PASSED .*::(\w+)", line) for line in lines]
    order = ["test_of_a_fleet", "test_of_a_page", "test_that_draws", "test_of_a_turn"]
    for process in ("gw0", "gw1"):  # each may take over the end of what the other has
        own = [each[2] for each in passed if each and each[1] == process]
        assert own[:2] == ["test_of_a_fleet"] * 2
        begun = [*dict.fromkeys(own)]
        assert begun == sorted(begun, key=order.index)


class Collected:
    """A test with what decides when it runs."""

    def __init__(self, nodeid: str, api_server: str = "") -> None:
        self.nodeid = nodeid
        self.callspec = SimpleNamespace(params={"api_server": api_server})

    def get_closest_marker(self, name: str) -> None:
        """Return no mark."""


def test_tests_that_wait_and_tests_that_ask_a_real_api_server_are_for_some_processes() -> None:
    """Only the first one waits, and every other one starts a cluster; all have as much to do."""
    waiting = [Collected(f"tests/workqueue/test_frozen.py::test_{number}") for number in range(3)]
    asking = [Collected(f"tests/client/test_raw.py::test_{number}", "real") for number in range(6)]
    others = [Collected(f"tests/dashboard/test_pages.py::test_{number}") for number in range(15)]
    quick = [Collected(f"tests/redisio/test_scripts.py::test_{number}") for number in range(16)]
    ordered = in_order(cast("list[pytest.Item]", [*quick, *others, *asking, *waiting]), 4)
    shares = [ordered[number * 10 : (number + 1) * 10] for number in range(4)]
    files = [Counter(item.nodeid.split("/")[2].partition(".")[0] for item in share) for share in shares]
    assert files == [
        {"test_frozen": 3, "test_raw": 3, "test_pages": 2, "test_scripts": 2},
        {"test_pages": 5, "test_scripts": 5},
        {"test_raw": 3, "test_pages": 2, "test_scripts": 5},
        {"test_pages": 6, "test_scripts": 4},
    ]


@pytest.mark.slow
def test_tests_of_the_night_run_only_if_asked_for(tmp_path: Path) -> None:
    """By its mark, on each kind if that is asked for, too."""
    (tmp_path / "tests" / "dashboard").mkdir(parents=True)
    (tmp_path / "tests" / "dashboard" / "test_dashboard.py").write_text(SERVERS)
    assert "3 passed" in run(tmp_path, "-m", "night", "--every-server", "tests")[-1]


def fake_python(folder: Path, name: str, says: str) -> Path:
    """Write a program that answers as a Python of a version would, or fails as a shim without one does."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    return program


def newer_pythons(path: Path, pyenv: Path) -> list[str]:
    """Return what is found as newer Pythons."""
    environment = {"PATH": f"{path}:/usr/bin:/bin", "PYENV_ROOT": str(pyenv)}
    found = subprocess.run(
        [ROOT / ".ci" / "newer-pythons"], env=environment, capture_output=True, text=True, check=True
    )
    return found.stdout.split()


def test_ci_finds_the_newer_pythons(tmp_path: Path) -> None:
    """On the PATH and of pyenv; by number, not by text; not what does not run, or is no release yet."""
    path, pyenv = tmp_path / "bin", tmp_path / "pyenv"
    fake_python(path, "python3", "echo 11")
    fake_python(path, "python3.11", "echo 11")
    assert newer_pythons(path, pyenv) == []
    newest = fake_python(path, "python3.100", "echo 100")
    fake_python(path, "python3.97", "exit 127")
    fake_python(path, "python3.98", "echo 0")
    fake_python(path, "python3.99-config", "echo 99")
    fake_python(pyenv / "versions" / "3.9.1" / "bin", "python3.9", "echo 9")
    assert newer_pythons(path, pyenv) == [str(newest)]
    older = fake_python(pyenv / "versions" / "3.13.0" / "bin", "python3.13", "echo 13")
    fake_python(pyenv / "versions" / "3.13.1" / "bin", "python3.13", "echo 13")
    assert newer_pythons(path, pyenv) == [str(older), str(newest)]


def test_named_files_run_wholly_and_in_one_process(tmp_path: Path) -> None:
    """A developer works on it and waits, and may want a debugger."""
    printed = run(tmp_path, "suite/test_parts.py::test_that_takes_long", "--numprocesses=auto")
    assert "1 passed" in printed[-1]
    assert "bringing up nodes" not in "".join(printed)
