"""``python -m distq.testing.envtest``: where kube-apiserver and etcd are, and how they come there."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from distq.errors import ConfigError
from distq.testing import Sandbox, envtest

GO = """#!/bin/sh
[ -z "$FAILS" ] || { echo "no space left"; exit 1; }
while [ "$1" != -o ]; do shift; done
echo built > "$2"
"""


def run(**environment: str | None) -> subprocess.CompletedProcess[str]:
    """Run the command, with these variables changed or (None) unset."""
    changed = {**os.environ, **environment}
    kept = {name: value for name, value in changed.items() if value is not None}
    command = [sys.executable, "-m", "distq.testing.envtest"]
    return subprocess.run(command, env=kept, capture_output=True, text=True, check=False)


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """Give a PATH with a go that writes what it is to build."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO)
    go.chmod(0o755)
    return f"{go.parent}:/usr/bin:/bin"


def test_a_given_folder_is_found(tmp_path: Path) -> None:
    """The folder that the variable names, as a line that a shell takes; nothing is built."""
    folder = tmp_path / "kube builder's"
    folder.mkdir()
    for name in envtest.MODULE.programs:
        (folder / name).touch()
    done = run(KUBEBUILDER_ASSETS=str(folder), PATH="")
    assert (done.returncode, done.stderr) == (0, "")
    assert shlex.split(done.stdout) == ["export", f"KUBEBUILDER_ASSETS={folder}"]


def test_a_wrong_folder_is_an_error(tmp_path: Path) -> None:
    """The variable was set for a reason: nothing else is taken, or built."""
    done = run(KUBEBUILDER_ASSETS=str(tmp_path), HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"no kube-apiserver and etcd in KUBEBUILDER_ASSETS={tmp_path}. Correct it" in done.stderr


def test_they_are_built_once(tmp_path: Path, programs: str) -> None:
    """Into the user's cache, where a second call and a Sandbox find them."""
    first, second = (run(KUBEBUILDER_ASSETS=None, HOME=str(tmp_path), PATH=programs) for _ in range(2))
    assert first.stderr.splitlines() == ["building kube-apiserver ...", "building etcd ..."]
    assert (second.returncode, second.stderr, second.stdout) == (0, "", first.stdout)
    folder = Path(shlex.split(first.stdout)[1].partition("=")[2])
    assert folder.is_relative_to(tmp_path)
    assert {each.name for each in folder.iterdir()} == set(envtest.MODULE.programs)


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, programs: str) -> None:
    """It names the failed step, and Go's own output has the cause."""
    done = run(KUBEBUILDER_ASSETS=None, HOME=str(tmp_path), PATH=programs, FAILS="yes")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no space left\nError: no envtest: go build ended with 1. See its output above." in done.stderr
    assert not list((tmp_path / ".cache" / "distq" / "envtest").iterdir())


def test_without_go_it_names_the_package(tmp_path: Path) -> None:
    """In one line."""
    done = run(KUBEBUILDER_ASSETS=None, HOME=str(tmp_path), PATH="")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: no envtest: go is not installed. Install it: https://go.dev/dl\n"


def test_a_sandbox_without_them_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It builds nothing itself: a test would take minutes."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with (
        pytest.raises(ConfigError, match=r"Build them with Go, by python -m distq\.testing\.envtest; or set"),
        Sandbox(server="kube-apiserver"),
    ):
        pass
