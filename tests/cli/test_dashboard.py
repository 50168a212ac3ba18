"""``distq dashboard``: its options choose the users, and options that would admit everyone are refused."""

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3
from click.testing import CliRunner
from werkzeug.security import check_password_hash

from distq.cli.program import main
from tests.cli.conftest import CommandLine
from tests.dashboard.test_users import UNMATCHED_HASH, file_of


def test_the_dashboard_serves_until_it_is_stopped(distq: CommandLine) -> None:
    """It prints its address and the allowed actions."""
    process = distq.start("dashboard", "--bind", "127.0.0.1:0")
    assert process.stderr is not None
    line = process.stderr.readline()
    assert "(read-only, no login: loopback only)" in line
    url = next(word for word in line.split() if word.startswith("http"))
    assert urllib3.request("GET", url, timeout=10).status == 200
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--bind", "0.0.0.0:9181"], "loopback only"),
        (["--bind", "0.0.0.0:9181", "--actions"], "loopback only"),
        (["--bind", "localhost:http"], "no port number"),
        (["--bind", "localhost:²"], "no port number"),
        (["--bind", "2001:db8::1"], 'to "2001:db8::1"'),
        (["--actions", "--read-only"], "cannot allow actions"),
        (["--users", "none"], "cannot read users file none"),
        (["--secret", "none"], "cannot read secret none"),
        (["--trusted-header", "X-User", "--role", "viewer"], "Give the trusted proxies"),
        (["--trusted-proxy", "10.0.0.1/8"], "bad trusted proxy"),
        (["--url-prefix", "/../etc"], "bad URL prefix"),
        (["--allowed-host", "a b"], "bad host"),
    ],
)
def test_options_that_would_admit_everyone_are_refused(
    distq: CommandLine, arguments: list[str], why: str
) -> None:
    """Each in one line, with status 2, and before anything listens."""
    done = distq("dashboard", *arguments)
    assert (done.returncode, done.stderr.count("\n"), done.stdout) == (2, 1, "")
    assert why in done.stderr


def test_a_setting_of_rq_dashboard_is_reported_as_not_read(distq: CommandLine) -> None:
    """A password that is set there must not pass for a login here."""
    distq.environment["RQ_DASHBOARD_PASSWORD"] = "correct horse"
    process = distq.start("dashboard", "--bind", "127.0.0.1:0")
    assert process.stderr is not None
    warning, started = process.stderr.readline(), process.stderr.readline()
    process.terminate()
    process.communicate(timeout=30)
    assert "WARNING: settings of rq-dashboard are not read: RQ_DASHBOARD_PASSWORD" in warning
    assert "correct horse" not in warning
    assert "(read-only, no login: loopback only)" in started


def test_a_role_has_its_old_name_for_a_while(distq: CommandLine) -> None:
    """``--role repair`` of 0.1.0 is taken, and the new name is printed."""
    for old, new in {"see": "viewer", "repair": "operator"}.items():
        done = distq("dashboard", "--trusted-header", "X-User", "--role", old)
        assert "Give the trusted proxies" in done.stderr
        assert f'the role "{old}" is "{new}" now.' in done.stderr
    assert distq("dashboard", "--role", "admin").returncode == 2


def test_with_a_login_any_address_is_bound(distq: CommandLine, tmp_path: Path) -> None:
    """The roles are in one file, and the secret that signs logins in another; neither is shown."""
    users = file_of(tmp_path, f"ada:operator:{UNMATCHED_HASH}")
    (tmp_path / "secret").write_text("sixteen bytes or more\n")
    choices = ["--users", str(users), "--secret", str(tmp_path / "secret"), "--allowed-host", "Distq.Example"]
    process = distq.start("dashboard", "--bind", "0.0.0.0:0", *choices)
    assert process.stderr is not None
    line = process.stderr.readline()
    assert "(repairs allowed, with a login)" in line
    port = re.findall(r":(\d+)/", line)[0]
    answer = urllib3.request(
        "GET", f"http://127.0.0.1:{port}/", headers={"Host": "distq.example"}, timeout=10, redirect=False
    )
    assert (answer.status, answer.headers["Location"]) == (302, "/login?next=/")
    process.terminate()
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "sixteen" not in said


def test_a_password_becomes_a_hash() -> None:
    """Read from stdin, so that it is in no history and no list of processes; none is refused."""
    done = CliRunner().invoke(main, ["dashboard", "--hash-password"], input="correct horse\n")
    assert done.exit_code == 0
    assert check_password_hash(done.stdout.strip(), "correct horse")
    for nothing in ("", "\n", "x" * 1025):
        done = CliRunner().invoke(main, ["dashboard", "--hash-password"], input=nothing)
        assert (done.exit_code, done.stdout) == (2, "")


def test_a_password_is_typed_twice_and_not_shown(distq: CommandLine) -> None:
    """At a terminal it is asked for, without an echo, and again until both are the same."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "distq", "dashboard", "--hash-password"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=distq.environment, close_fds=True
    ) as process:
        os.close(theirs)
        said = b""
        for typed in (b"correct horse\n", b"correct horse\n"):
            while not said.rstrip(b" ").endswith(b":"):
                said += os.read(ours, 1024)
            os.write(ours, typed)
            said += b"\n"
        assert process.stdout is not None
        hashed = process.stdout.read().decode().strip()
    assert check_password_hash(hashed, "correct horse")
    assert b"horse" not in said
    os.close(ours)
