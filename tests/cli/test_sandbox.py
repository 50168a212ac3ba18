"""``distq sandbox``: a Redis and a cluster for a terminal, or around one command."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from distq.redisio.connection import Connection
from tests import ROOT
from tests.cli.conftest import CommandLine
from tests.support import signalled_thread
from tests.support.samples import FOO_DEFINITION


def test_it_prints_exports_and_ends_with_everything(distq: CommandLine) -> None:
    """What it prints works while it runs; nothing of it is left afterwards."""
    process = distq.start("sandbox", "--json")
    assert process.stdout is not None
    variables = json.loads(process.stdout.readline())
    assert set(variables) == {"DISTQ_REDIS_URL", "KUBECONFIG"}
    assert distq("check", **variables).returncode == 0
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert not Path(variables["KUBECONFIG"]).parent.exists()
    connection = Connection(variables["DISTQ_REDIS_URL"])
    assert connection.check()[0].startswith("FAIL")


def test_exports_are_for_a_shell(distq: CommandLine) -> None:
    """Two lines to paste into another terminal; Ctrl-C ends it."""
    process = distq.start("sandbox")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(2)]
    assert lines[0].startswith("export DISTQ_REDIS_URL=redis://127.0.0.1:")
    assert lines[1].startswith("export KUBECONFIG=/")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in said


def test_a_command_runs_inside_and_gives_its_status(distq: CommandLine) -> None:
    """The command sees the variables and the manifests; its status is the sandbox's."""
    (distq.folder / "crd.yaml").write_text(FOO_DEFINITION)
    code = (
        "import os, sys; from distq import Client; print(Client().resolve('example.com/v1/Foo')); sys.exit(7)"
    )
    done = distq("sandbox", "--manifest", "crd.yaml", sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (7, "example.com/v1/Foo\n"), done.stderr
    assert distq("sandbox", "no-such-command").returncode == 1


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("distq", ["sandbox"]),
        pytest.param("distq", ["sandbox", "sh", "-c", "echo ready; exec sleep 1000"], marks=pytest.mark.slow),
        pytest.param("distq.testing.apiserver", ["--port", "0"], marks=pytest.mark.slow),
    ],
    ids=["exports", "a command", "the API server"],
)
def test_a_sigterm_that_another_thread_receives_is_noticed(
    distq: CommandLine, module: str, arguments: list[str]
) -> None:
    """The main thread runs the handlers, and looks now and then whether one is due."""
    with subprocess.Popen(
        [*signalled_thread.COMMAND, module, *arguments],
        cwd=ROOT,
        env=distq.environment | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.send_signal(signal.SIGUSR1)
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == (128 + signal.SIGTERM if "sh" in arguments else 0)
