"""What the command line does for a user who types: completion, help, widths and colours."""

import os
from pathlib import Path

import pytest

from distq.errors import TerminalError
from distq.redisio.connection import Connection
from distq.testing import EmulatedApiServer
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine
from tests.proofs.first_contact.conftest import PROGRAMS, Window

pytestmark = pytest.mark.first_contact(17)

ERROR = "object changed " * 10


@pytest.fixture
def foos(redis: Connection) -> Queue:
    """Give a queue with a long error and an item that waits."""
    queue = Queue("foos", redis)
    queue.add("prod/web")
    queue.settle(queue.get(), TerminalError(ERROR))
    queue.add("prod/api")
    queue.close()
    return queue


def completions(distq: CommandLine, line: str, **environment: str) -> list[str]:
    """Return what bash is offered at the end of a line."""
    words = line.split(" ")
    typed = {"_DISTQ_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = distq(**typed, **environment)
    assert done.stderr == ""
    return [offered.partition(",")[2] for offered in done.stdout.splitlines() if offered]


def test_no_key_is_offered_or_named_that_a_shell_would_run(
    distq: CommandLine, foos: Queue, redis: Connection
) -> None:
    """No key runs a command through the TAB, or the copied remedy, of an operator."""
    hostile = ["prod/$(reboot)", "prod/`id`", "prod/a;id", "--state", "prod/a b"]
    Queue("foos", redis).add(*hostile)
    assert sorted(completions(distq, "distq items foos prod/")) == ["prod/api", "prod/web"]
    assert "--state" not in completions(distq, "distq items foos ")
    distq("park", "foos", "prod/a;id")
    assert "distq requeue foos 'prod/a;id'" in distq("items", "foos", "prod/a;id").stdout


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("distq qu", ["queues"]),
        ("distq items fo", ["foos"]),
        ("distq items foos prod/w", ["prod/web"]),
        ("distq items foos --state de", ["delayed", "dead"]),
        ("distq park foos --sta", ["--state"]),
        ("distq queues ba", []),
    ],
)
def test_a_tab_completes_commands_queues_keys_and_states(
    distq: CommandLine, foos: Queue, line: str, offered: list[str]
) -> None:
    """What Redis knows is offered beside what the program knows."""
    assert completions(distq, line) == offered


def test_a_tab_offers_all_commands(distq: CommandLine) -> None:
    """Nothing typed yet is no error."""
    assert {"queues", "run", "sandbox"} <= set(completions(distq, "distq "))


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "nonsense", "redis://10.255.255.1:6379/0"])
def test_a_tab_without_redis_is_silent(distq: CommandLine, url: str) -> None:
    """Neither an error nor a long wait: no answer counts as no queues."""
    assert completions(distq, "distq items fo", DISTQ_REDIS_URL=url) == []


def test_bash_completes_with_the_printed_script(distq: CommandLine, foos: Queue) -> None:
    """A user types, presses TAB, and the line is whole."""
    window = open_window(distq, "bash", "--norc", PS1="$ ", PATH=f"{PROGRAMS}:{os.environ['PATH']}")
    try:
        window.type("source <(distq completion bash); echo re''ady\n")
        window.wait_for("\nready")
        window.type("distq qu\tfo\t--json\n")
        window.wait_for('{"name":"foos"')
    finally:
        window.close()
        window.process.wait()


def open_window(distq: CommandLine, *command: str, **environment: str) -> Window:
    """Open a terminal of 80 columns."""
    return Window([*command], distq.folder, {**distq.environment, "TERM": "xterm", **environment})


@pytest.mark.parametrize("command", ["queues", "items", "run", "check", "add", "park", "dashboard"])
def test_help_shows_a_commands_own_options(distq: CommandLine, command: str) -> None:
    """With an example; what all commands share is one option away."""
    brief, whole = distq(command, "--help").stdout, distq(command, "--help-all").stdout
    assert "--json" in brief
    assert not {"--redis-url", "--log-format", "--show-config"} & set(brief.split())
    assert brief.rstrip().splitlines()[-1].startswith(f"  Example: distq {command}")
    assert "--help-all" in brief
    assert {"--redis-url", "--log-format", "--show-config"} <= set(whole.split())
    assert whole.index("--json") < whole.index("--redis-url")


def test_errors_are_cut_to_the_terminal_alone(distq: CommandLine, foos: Queue) -> None:
    """A line a row on a terminal, everything in a pipe."""
    assert ERROR.strip() in distq("items", "foos").stdout
    window = open_window(distq, str(PROGRAMS / "distq"), "items", "foos")
    row = window.wait_for(r"\nprod/web .*").strip()
    assert len(row) == 80
    assert row.endswith("…")
    assert window.wait() == 0


@pytest.mark.parametrize(("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_is_for_terminals_that_want_it(
    distq: CommandLine, foos: Queue, environment: dict[str, str], coloured: bool
) -> None:
    """The state of a dead item is red on a terminal, and plain elsewhere."""
    assert "\x1b" not in distq("items", "foos").stdout
    window = open_window(distq, str(PROGRAMS / "distq"), "items", "foos", **environment)
    assert window.wait() == 0
    assert ("\x1b[31mprod/web" in window.raw) == coloured


@pytest.mark.parametrize("arguments", [(), ("prod/日本",)])
def test_letters_that_a_terminal_lacks_are_escaped(
    distq: CommandLine, foos: Queue, redis: Connection, arguments: tuple[str, ...]
) -> None:
    """A key or an error of another language is no traceback, and hides no other item."""
    Queue("foos", redis).add("prod/日本")
    latin = distq("items", "foos", *arguments, PYTHONIOENCODING="iso-8859-1:strict")
    assert (latin.returncode, "Traceback" in latin.stderr) == (0, False)
    assert "\\u65e5\\u672c" in latin.stdout


def test_all_items_of_a_state_are_parked_at_once(distq: CommandLine, redis: Connection) -> None:
    """As it is requeued and deleted: all of it, or what matches."""
    queue = Queue("foos", redis)
    queue.add("prod/web", "prod/api", "test/web")
    done = distq("park", "foos", "--state", "ready", "--match", "prod/*", "--reason", "INC-7", "--yes")
    assert (done.returncode, done.stdout) == (0, "parked 2\n")
    assert queue.depth() == 1
    refused = distq("park", "foos", "--state", "processing", "--yes")
    assert refused.returncode == 1
    assert "their workers hold them" in refused.stderr
    assert distq("park", "foos").returncode == 2
    queue.close()


def test_check_takes_a_kubeconfig(distq: CommandLine, tmp_path: Path) -> None:
    """As the commands whose needs it checks."""
    with EmulatedApiServer() as server:
        kubeconfig = server.kubeconfig(tmp_path / "other")
        done = distq("check", "--kubeconfig", str(kubeconfig))
        assert f"API server 1.36 at {server.url}" in done.stdout


def test_show_config_prints_the_settings_in_force(distq: CommandLine, valkey: EmbeddedValkey) -> None:
    """Defaults are marked as such, and never hidden behind a dash; secrets never shown."""
    shown = distq("informer", "foos", "--show-config", DISTQ_REDIS_PASSWORD="geheim").stdout
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in shown.splitlines()}
    assert lines["redis_url"] == valkey.url
    assert lines["redis_password"] == "***"
    assert lines["lease_name"] == "distq-foos"
    assert lines["lease_duration"] == "15.0 (default)"
    assert lines["http_address"] == "off (default)"
    del distq.environment["DISTQ_REDIS_URL"]
    assert "redis://127.0.0.1:6379/0  (default)" in distq("queues", "--show-config").stdout
