"""However a demo or sandbox ends, nothing that it started goes on: no process, no file, no port."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.proofs.first_contact.conftest import Desk, Window
from tests.support.eventually import eventually

pytestmark = pytest.mark.first_contact(15)

CLOSE = "the window is closed"
KILL = "it is killed"


def end(how: str, window: Window) -> None:
    """End what runs in a window, without its consent."""
    if how == KILL:
        window.process.kill()
    else:
        window.close()


@pytest.mark.slow  # a desk sees Ctrl-C end a demo, and closed windows and kills end sandboxes
@pytest.mark.parametrize("how", [CLOSE, KILL])
def test_a_demo_takes_everything_with_it(desk: Desk, how: str) -> None:
    """Two informers, three workers, Valkey and the folder of their journals are gone."""
    window = desk.open("distq", "demo", "--duration", "60", "--json")
    window.wait_for(r'"leader":"informer-1"')
    assert len([line for line in desk.processes().values() if "distq.cli.demo.controller" in line]) == 5
    end(how, window)
    desk.require_nothing_left()


@pytest.mark.parametrize("how", [CLOSE, KILL])
@pytest.mark.parametrize(
    "command",
    [
        [],
        pytest.param(["sleep", "1000"], marks=pytest.mark.slow),
        ["sh", "-c", "setsid sleep 1000 & trap '' HUP TERM; sleep 1000; sleep 1000"],
    ],
    ids=["exports", "a command", "a daemon and a deaf one"],
)
def test_a_sandbox_takes_everything_with_it(desk: Desk, command: list[str], how: str) -> None:
    """Also what left the session, and what ignores the signals that ask."""
    window = desk.open("distq", "sandbox", *command)
    if command:
        eventually(lambda: any("sleep 1000" in line for line in desk.processes().values()))
    else:
        window.wait_for("export KUBECONFIG=")
    eventually(lambda: any("valkey-server" in line for line in desk.processes().values()))
    end(how, window)
    desk.require_nothing_left()


@pytest.mark.parametrize("how", [CLOSE, pytest.param(KILL, marks=pytest.mark.slow)])
def test_a_shell_in_a_sandbox_ends_with_its_jobs(desk: Desk, how: str) -> None:
    """A shell at a terminal ignores SIGTERM, and its jobs are in groups of their own."""
    window = desk.open("distq", "sandbox", "bash")
    window.wait_for(r"\(distq sandbox\) ")
    window.type("sleep 1000 &\n")
    eventually(lambda: any(line.startswith("sleep 1000") for line in desk.processes().values()))
    end(how, window)
    desk.require_nothing_left()


def test_leaving_the_shell_ends_its_jobs(desk: Desk) -> None:
    """They would go on without a Redis; how many there were is said."""
    window = desk.open("distq", "sandbox", "bash")
    window.wait_for(r"\(distq sandbox\) ")
    window.type("sleep 1000 & \n")
    eventually(lambda: any(line.startswith("sleep 1000") for line in desk.processes().values()))
    window.type("exit 3\n")
    window.wait_for("ended 1 program that still ran inside")
    assert window.wait() == 3
    desk.require_nothing_left()


def test_ctrl_c_names_the_servers_that_a_sandbox_stops(desk: Desk) -> None:
    """Both servers are named with their addresses."""
    window = desk.open("distq", "sandbox")
    window.wait_for("Ctrl-C stops both")
    window.type("\x03")
    window.wait_for(
        r"stopping: Valkey at 127\.0\.0\.1:\d+, an emulated API server at http://127\.0\.0\.1:\d+"
    )
    assert window.wait() == 130
    desk.require_nothing_left()


def test_ctrl_c_reaches_a_command_in_a_sandbox_once(desk: Desk) -> None:
    """The terminal sends it to both; a second one would make a worker not wait for its reconciles."""
    heard, over = desk.folder / "heard", desk.folder / "over"
    source = (
        "import pathlib, signal, time\n"
        "heard, over = pathlib.Path('heard'), pathlib.Path('over')\n"
        "signal.signal(signal.SIGINT, lambda *_: heard.open('a').write('interrupted '))\n"
        "heard.touch()\n"
        "while not over.exists(): time.sleep(0.01)\n"
        "time.sleep(0.5)"
    )
    window = desk.open("distq", "sandbox", "python", "-c", source)
    eventually(heard.exists)
    window.process.send_signal(signal.SIGSTOP)  # two at the same time would be taken for one
    state = Path(f"/proc/{window.process.pid}/status")
    eventually(lambda: "(stopped)" in state.read_text())
    window.type("\x03")
    eventually(heard.read_text)
    window.process.send_signal(signal.SIGCONT)
    over.touch()
    assert window.wait() == 0
    assert heard.read_text() == "interrupted "


def test_ctrl_c_lets_reconciles_end_that_a_reloading_run_has_begun(desk: Desk) -> None:
    """Neither the sandbox nor the reloading process sends the program a second signal, for haste."""
    (desk.folder / "foos.py").write_text(
        "import pathlib, time\n"
        "from distq import Controller, Request\n"
        "def reconcile(request: Request) -> None:\n"
        "    print('reconciling', flush=True)\n"
        "    while not pathlib.Path('over').exists(): time.sleep(0.01)\n"
        "    print('reconciled', flush=True)\n"
        "controller = Controller('foos', reconcile)\n"
        "controller.queue.add('web')\n"
    )
    window = desk.open("distq", "sandbox", "distq", "run", "foos", "--reload")
    window.wait_for("reconciling")
    window.type("\x03")
    window.wait_for("SIGINT: no new work; 1 in progress")
    (desk.folder / "over").touch()
    assert "again" not in window.wait_for(r"(?s).*reconciled(?s:.*)done in")
    assert window.wait() == 130
    desk.require_nothing_left()


def test_closing_the_window_of_a_run_lets_reconciles_end(desk: Desk) -> None:
    """Their items are settled, though no caller is left."""
    (desk.folder / "foos.py").write_text(
        "import pathlib, time\n"
        "from distq import Controller, Request\n"
        "def reconcile(request: Request) -> None:\n"
        "    print('reconciling', flush=True)\n"
        "    while not pathlib.Path('over').exists(): time.sleep(0.01)\n"
        "controller = Controller('foos', reconcile)\n"
        "controller.queue.add('web')\n"
    )
    with EmbeddedValkey() as server:
        window = desk.open("distq", "run", "foos", DISTQ_REDIS_URL=server.url)
        window.wait_for("reconciling")
        window.close()
        (desk.folder / "over").touch()
        window.wait()
        (queue,) = Inspector(Connection(server.url)).queues()
    assert (queue.ready, queue.processing, queue.workers) == (0, 0, 0)


def test_ctrl_c_counts_the_processes_that_a_demo_stops(desk: Desk) -> None:
    """Each kind of process has its number."""
    window = desk.open("distq", "demo", "--duration", "60", "--json")
    window.wait_for(r'"leader":"informer-1"')
    window.type("\x03")
    window.wait_for(r"stopping: 2 informers, 3 workers, Valkey, the API server; nothing is left of them")
    assert window.wait() == 130
    desk.require_nothing_left()


def test_nohup_is_heeded(desk: Desk) -> None:
    """A user starts a sandbox with nohup if it has to outlive the window."""
    process = subprocess.Popen(
        ["nohup", "distq", "sandbox", "--json"],
        cwd=desk.folder,
        env=desk.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout is not None
        variables = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGHUP)
        done = subprocess.run(
            ["distq", "queues"],
            env=desk.environment | variables,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        process.terminate()
    desk.require_nothing_left()


def test_a_sandbox_in_a_test_that_is_killed_leaves_nothing(desk: Desk) -> None:
    """Not only the command is guarded: so is a Sandbox in anyone's program."""
    source = (
        "import time\nfrom distq.testing import Sandbox\n"
        "with Sandbox():\n    print('up', flush=True)\n    time.sleep(1000)"
    )
    window = desk.open("python", "-c", source)
    window.wait_for("up")
    window.process.kill()
    desk.require_nothing_left()
