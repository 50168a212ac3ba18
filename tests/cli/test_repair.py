"""Commands that change queues: they say what they did, and ask before what cannot be undone."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from distq.cli.audit import operator_of
from distq.cli.repair import ChosenItems
from distq.errors import RedisUnavailable, TerminalError
from distq.inspector import Inspector
from distq.inspector.operator import Chosen
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.roles import user_of
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine


@pytest.fixture
def foos(redis: Connection) -> Queue:
    """Give a queue with three dead items and two delayed ones."""
    queue = Queue("foos", redis)
    queue.add("prod/a", "prod/b", "test/c")
    for _ in range(3):
        queue.settle(queue.get(), TerminalError("no"))
    queue.add("later/1", "later/2", after=100)
    return queue


def _answer(distq: CommandLine, answer: str, *arguments: str) -> tuple[int, str]:
    """Run on a terminal where a user types the answer; return status and stdout."""
    terminal, ours = pty.openpty()
    try:
        os.write(terminal, f"{answer}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "distq", *arguments],
            env=distq.environment,
            stdin=ours,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    finally:
        os.close(terminal)
        os.close(ours)
    return done.returncode, done.stdout


def test_add_prints_how_many_are_new(distq: CommandLine, redis: Connection) -> None:
    """A key that waits already is not added again."""
    assert distq("add", "foos", "a", "b", "--priority", "3").stdout == "added 2\n"
    assert json.loads(distq("add", "foos", "b", "c", "--after", "100", "--json").stdout) == {"added": 1}
    info = Inspector(redis).queues("foos")[0]
    assert (info.ready, info.delayed) == (2, 1)


@pytest.mark.first_contact(5)
@pytest.mark.parametrize(
    ("given", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400), ("2d", 172800)]
)
def test_a_delay_may_have_a_unit(distq: CommandLine, redis: Connection, given: str, seconds: float) -> None:
    """As kubectl's durations have one."""
    before = redis.now()
    assert distq("add", "foos", "a", "--after", given).stdout == "added 1\n"
    item = Inspector(redis).item("foos", "a")
    assert item is not None
    assert item.due is not None
    assert 0 <= item.due - before - seconds <= 60


@pytest.mark.first_contact(5)
@pytest.mark.parametrize("delay", ["nan", "inf", "-1", "5 m", "5M", "soon"])
def test_a_bad_delay_is_a_mistake_of_usage(distq: CommandLine, redis: Connection, delay: str) -> None:
    """It is said in one line, and nothing is added."""
    done = distq("add", "foos", "a", f"--after={delay}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert delay in done.stderr
    assert Inspector(redis).queues("foos") == []


@pytest.mark.first_contact(5)
def test_more_than_ten_years_is_said_to_be_ten_years(distq: CommandLine, redis: Connection) -> None:
    """The delay is not the one that was asked for."""
    done = distq("add", "foos", "a", "--after", "1e15")
    assert (done.stdout, done.stderr) == ("added 1\n", "distq: --after 1e+15 counts as ten years\n")
    item = Inspector(redis).item("foos", "a")
    assert item is not None
    assert item.due is not None
    assert abs(item.due - Inspector(redis).now() - 315_576_000) < 60


def test_named_items_are_requeued_at_once(distq: CommandLine, foos: Queue, redis: Connection) -> None:
    """A key that was typed needs no confirmation."""
    assert json.loads(distq("requeue", "foos", "prod/a", "later/1", "--json").stdout) == {"requeued": 2}
    assert {item.key for item in Inspector(redis).items("foos", state="ready")} == {"prod/a", "later/1"}
    foos.close()


def test_an_object_that_a_watch_could_not_map_is_not_requeued(
    distq: CommandLine, foos: Queue, redis: Connection
) -> None:
    """Its name is no key: the remedy is another one, and all that are dead are requeued but it."""
    item = "ConfigMap foos.foos_of: prod/bad"
    StreamStore(redis, "foos", "maps").commit(
        Commit(
            epoch="1",
            after="",
            new="5",
            batch="a",
            unrouted={item.encode(): "Watches v1/ConfigMap: KeyError: 'foos'"},
            parked_as="ConfigMap foos.foos_of: ",
        )
    )
    shown = distq("items", "foos", item).stdout
    assert "(unmapped)" in shown
    assert "failures" not in shown  # no reconcile failed
    assert "KeyError: 'foos'" in shown
    assert "remedy    fix the object, or the function and then: distq resync foos" in shown
    done = distq("requeue", "foos", item)
    assert (done.returncode, "it is no key. Instead fix the object" in done.stderr) == (1, True)
    some = distq("requeue", "foos", "--state", "dead", "--yes")
    assert some.stdout == "requeued 3\n"
    assert "1 item was left: changed meanwhile, or not mapped: fix the object, or the function" in some.stderr
    assert "and then: distq resync foos" in some.stderr
    assert [each.key for each in Inspector(redis).items("foos", state="dead")] == [item]
    assert distq("delete", "foos", item, "--yes").stdout == "deleted 1\n"
    foos.close()


def test_many_are_asked_for(distq: CommandLine, foos: Queue, redis: Connection) -> None:
    """No changes nothing and exits 1; yes goes ahead."""
    command = ("requeue", "foos", "--state", "dead", "--match", "prod/*")
    assert _answer(distq, "n", *command)[0] == 1
    assert Inspector(redis).queues()[0].dead == 3
    assert _answer(distq, "y", *command) == (0, "requeued 2\n")
    assert Inspector(redis).queues()[0].dead == 1
    foos.close()


def test_without_a_terminal_yes_is_needed(distq: CommandLine, foos: Queue, redis: Connection) -> None:
    """A script that did not say --yes changes nothing."""
    for command in (["delete", "foos", "--state", "delayed"], ["requeue", "foos", "--state", "dead"]):
        done = distq(*command)
        assert done.returncode == 2
        assert done.stderr.rstrip().endswith("Add --yes.")
    assert Inspector(redis).queues()[0].delayed == 2
    assert json.loads(distq("delete", "foos", "--state", "delayed", "--yes", "--json").stdout) == {
        "deleted": 2
    }
    assert distq("delete", "foos", "--state", "delayed").stdout == "deleted 0\n"
    foos.close()


def test_deleting_a_key_asks_too(distq: CommandLine, foos: Queue) -> None:
    """A deleted item cannot be had back."""
    assert _answer(distq, "", "delete", "foos", "prod/a")[0] == 1
    assert _answer(distq, "y", "delete", "foos", "prod/a") == (0, "deleted 1\n")
    foos.close()


def test_processing_items_are_not_deleted(distq: CommandLine, redis: Connection) -> None:
    """Their workers hold them: exit 1; an add that is pending beside the claim may go."""
    queue = Queue("foos", redis)
    queue.add("held")
    request = queue.get()
    for chosen in (["held"], ["--state", "processing"]):
        done = distq("delete", "foos", *chosen, "--yes")
        assert done.returncode == 1
        assert done.stderr.startswith("distq: cannot delete")
    queue.add("held")
    assert distq("delete", "foos", "held", "--yes").stdout == "deleted 1\n"
    assert queue.settle(request)
    queue.close()


def test_keys_that_are_not_there_exit_1(distq: CommandLine, foos: Queue, redis: Connection) -> None:
    """One wrong key and nothing is changed."""
    for command in ("requeue", "delete"):
        done = distq(command, "foos", "prod/a", "prod/x", "--yes")
        assert done.returncode == 1
        assert 'no item "prod/x" in foos' in done.stderr
        assert distq(command, "bars", "x", "--yes").returncode == 1
    assert Inspector(redis).queues()[0].dead == 3
    foos.close()


def test_either_keys_or_a_state(distq: CommandLine, foos: Queue) -> None:
    """Neither, both, and a match alone are usage errors."""
    for chosen in ([], ["prod/a", "--state", "dead"], ["--match", "*"]):
        assert distq("requeue", "foos", *chosen, "--yes").returncode == 2
    foos.close()


def test_items_that_an_operator_made_dead_show_their_reason(distq: CommandLine, foos: Queue) -> None:
    """Later commands show why; a requeue takes them back."""
    foos.add("ready")
    done = distq("park", "foos", "ready", "later/1", "--reason", "waits for INC-7", "--json")
    assert json.loads(done.stdout) == {"parked": 2}
    again = distq("park", "foos", "ready", "prod/a")
    assert again.stdout == "parked 0\n"
    assert again.stderr.splitlines() == [
        "ready is dead already (parked), and nothing but a change revives it.",
        "prod/a is dead already (terminal), and nothing but a change revives it.",
    ]
    rows = distq("items", "foos", "--state", "dead", "--match", "ready").stdout.splitlines()
    assert rows[1].endswith("parked: waits for INC-7")
    one = distq("items", "foos", "ready").stdout
    assert "(parked)" in one
    assert "reason    waits for INC-7" in one
    assert "remedy    distq requeue foos ready" in one
    assert "failures" not in one
    item = json.loads(distq("items", "foos", "ready", "--json").stdout)
    assert (item["state"], item["reason"], item["last_error"]) == ("dead", "parked", "waits for INC-7")
    assert distq("requeue", "foos", "ready", "later/1").stdout == "requeued 2\n"
    foos.close()


def test_items_that_would_be_revived_can_be_parked(distq: CommandLine, redis: Connection) -> None:
    """By its key, or with all the dead, of which the others stay as they are."""
    queue = Queue("foos", redis, max_retries=0, revive_dead_after=900.0)
    queue.add("a", "b", "c")
    for error in (ValueError("a"), ValueError("b"), TerminalError("c")):
        queue.settle(queue.get(), error)
    assert "revived   in 1" in distq("items", "foos", "a").stdout
    assert distq("park", "foos", "a", "--reason", "not now").stdout == "parked 1\n"
    assert "revived" not in distq("items", "foos", "a").stdout
    assert distq("park", "foos", "--state", "dead", "--yes").stdout == "parked 1\n"
    found = {item.key: item.reason for item in Inspector(redis).items("foos", state="dead")}
    assert found == {"a": "parked", "b": "parked", "c": "terminal"}
    queue.close()


def test_items_in_progress_cannot_be_parked(distq: CommandLine, redis: Connection) -> None:
    """Their workers have them; one such key, an unknown one, or a bad reason, and nothing is changed."""
    queue = Queue("foos", redis)
    queue.add("held", "ready")
    queue.get()
    done = distq("park", "foos", "ready", "held")
    assert done.returncode == 1
    assert done.stderr.startswith("distq: cannot park held: ")
    assert 'no item "absent" in foos' in distq("park", "foos", "ready", "absent").stderr
    done = distq("park", "foos", "ready", "--reason", "two\nlines")
    assert done.returncode == 2
    assert done.stderr == (
        "distq: bad reason 'two\\nlines'. Use one line of 1 to 256 bytes of printable text.\n"
    )
    assert Inspector(redis).queues("foos")[0].dead == 0
    queue.close()


def test_a_resync_is_asked_for_and_reaches_every_stream(
    distq: CommandLine, foos: Queue, redis: Connection
) -> None:
    """It is work for the leader; a queue that no informer feeds has nothing to list."""
    refused = distq("resync", "foos", "--yes")
    assert refused.returncode == 1
    assert refused.stderr == "distq: nothing to list: no informer feeds foos.\n"
    for name in ("pods", "nodes"):
        StreamStore(redis, "foos", name).commit(
            Commit(epoch="1", after="", new="7", batch="b1", about={"resource": f"v1/{name}"})
        )
    assert _answer(distq, "n", "resync", "foos") == (1, "")
    assert Inspector(redis).streams("foos")[0].version == "7"
    assert _answer(distq, "y", "resync", "foos") == (0, "resynced 2\n")
    assert [stream.version for stream in Inspector(redis).streams("foos")] == [None, None]
    assert json.loads(distq("resync", "foos", "--yes", "--json").stdout) == {
        "resynced": 2,
        "gone_since": None,
    }


def _stream(redis: Connection, after: str, new: str, batch: str, **about: object) -> None:
    """Commit as the leader of a stream of the queue does."""
    StreamStore(redis, "foos", "pods").commit(
        Commit(
            epoch="1",
            after=after,
            new=new,
            batch=batch,
            about={"resource": "v1/Pod", "leader": "ada", **about},
        )
    )


def _alive(redis: Connection) -> dict[str, object]:
    return {"seen": redis.now(), "lease": 600.0}  # longer than any machine takes to start a program


@pytest.mark.first_contact(12)
def test_a_resync_reports_that_no_process_leads(distq: CommandLine, foos: Queue, redis: Connection) -> None:
    """It is remembered for the next leader, but nothing happens before."""
    _stream(redis, "", "7", "b1", seen=redis.now() - 100, lease=15.0)
    done = distq("resync", "foos", "--yes")
    assert done.stdout == "resynced 1\n"
    assert re.fullmatch(
        r"no leader for 1m\d+s: the resync begins when an informer of foos leads\n", done.stderr
    )
    report = json.loads(distq("resync", "foos", "--yes", "--json").stdout)
    assert report["gone_since"].endswith("Z")


@pytest.mark.first_contact(12)
def test_a_resync_can_be_followed_to_its_end(distq: CommandLine, foos: Queue, redis: Connection) -> None:
    """Which is when the leader has listed and enqueued everything."""
    _stream(redis, "", "7", "b1", **_alive(redis))
    process = distq.start("resync", "foos", "--yes", "--wait")
    assert process.stderr is not None
    assert process.stderr.readline() == "0 of 1 listed\n"
    record = StreamStore(redis, "foos", "pods").load()
    assert record is not None
    _stream(redis, record.batch, "!~step", "b2", **_alive(redis))
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    _stream(redis, "b2", "8", "b3", **_alive(redis))
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout, stderr) == (0, "resynced 1\n", "1 of 1 listed\n")


def test_a_resync_is_not_followed_for_ever(distq: CommandLine, foos: Queue, redis: Connection) -> None:
    """The timeout ends, or the user presses Ctrl-C: the resync goes on."""
    _stream(redis, "", "7", "b1", **_alive(redis))
    done = distq("resync", "foos", "--yes", "--wait", "--timeout", "0.3", "--json")
    assert (done.returncode, json.loads(done.stdout)["listed"]) == (1, 0)
    assert "distq: not listed within 0.3 s: v1/Pod. It goes on." in done.stderr
    process = distq.start("resync", "foos", "--yes", "--wait")
    assert process.stderr is not None
    assert process.stderr.readline() == "0 of 1 listed\n"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, "")
    assert "not waiting any more; the resync goes on\n" in stderr


def test_work_on_many_items_shows_how_far_it_is(distq: CommandLine, redis: Connection) -> None:
    """On stderr, in steps that each are bounded; the count at the end is of all."""
    queue = Queue("many", redis)
    for first in range(0, 3000, 1000):
        queue.add(*(f"key-{number}" for number in range(first, first + 1000)), after=100)
    done = distq("park", "many", "--state", "delayed", "--match", "key-*", "--yes")
    assert done.stdout == "parked 3000\n"
    assert re.search(r"^park: \[#+\.+\] \d+ of 3000$", done.stderr, re.MULTILINE)
    done = distq("requeue", "many", "--state", "dead", "--yes", "--json")
    assert json.loads(done.stdout) == {"requeued": 3000}
    assert redis.execute("ZCARD", "distq:{many}:ready") == 3000


def test_changes_by_commands_are_in_the_audit(distq: CommandLine, redis: Connection, foos: Queue) -> None:
    """With this machine's user, the action and its outcome; questions and refusals are not."""
    StreamStore(redis, "foos", "pods").commit(
        Commit(epoch="1", after="", new="5", batch="a", about={"resource": "v1/Pod"})
    )
    for arguments in (
        "add foos new",
        "requeue foos prod/a",
        "requeue foos prod/a prod/b",
        "requeue foos --state dead --match test/* --yes",
        "park foos prod/a --reason why",
        "delete foos --state delayed --yes",
        "delete foos --state ready",
        "pause foos",
        "pause foos",
        "resume foos",
        "resync foos --yes",
        "trace on foos --for 5m --match prod/*",
        "trace off foos",
        "fair foos namespace",
        "pause nothing",
    ):
        distq(*arguments.split(), USER="ada", LOGNAME="ada")
    entries = Inspector(redis).audit()
    assert [(entry.text, entry.outcome) for entry in reversed(entries)] == [
        ("add new to foos", "1 new"),
        ("requeue prod/a of foos", "1 of 1 changed"),
        ("requeue 2 items of foos", "1 of 2 changed: prod/a, prod/b"),
        ("requeue dead items of foos that match test/*", "1 of 1 changed"),
        ("park prod/a of foos", "1 of 1 changed"),
        ("delete delayed items of foos", "2 of 2 changed"),
        ("pause foos", "done"),
        ("pause foos", "it was so already"),
        ("resume foos", "done"),
        ("resync foos", "1 resource"),
        ("trace foos for 5 minutes where keys match prod/*", "done"),
        ("end the trace of foos", "done"),
        ("share foos fairly by namespace", "done"),
    ]
    assert {(entry.person, entry.address, entry.via) for entry in entries} == {
        ("ada", socket.gethostname(), "command line")
    }


def test_an_add_that_redis_refuses_is_in_the_audit(
    distq: CommandLine, redis: Connection, foos: Queue
) -> None:
    """It may have been done in part; arguments that no queue takes leave nothing, not even an audit."""
    redis.execute("DEL", "distq:{foos}:ready")
    redis.execute("SET", "distq:{foos}:ready", "garbage")
    for arguments in ("add foos new", "add foos good \n", "add nothing good --after inf", "add nothing \n"):
        assert distq(*arguments.split(" ")).returncode in (1, 2)
    assert redis.execute("KEYS", "distq:{nothing}:*") == []
    (entry,) = Inspector(redis).audit()
    assert entry.text == "add new to foos"
    assert str(entry.outcome).startswith("failed: ")


def test_a_repair_that_fails_halfway_is_in_the_audit_with_how_far_it_came(
    redis: Connection, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the command prints this, too: finished changes stay."""
    queue, inspector = Queue("foos", redis), Inspector(redis)
    queue.add(*(f"a/{number}" for number in range(1500)))
    repair, steps = Inspector.repair_some, iter([True])

    def once(self: Inspector, *arguments: Any, **named: Any) -> Any:
        if next(steps, False):
            return repair(self, *arguments, **named)
        raise RedisUnavailable("no answer")

    monkeypatch.setattr(Inspector, "repair_some", once)
    chosen = ChosenItems(operator_of(inspector), Chosen(queue="foos", state="ready"), yes=True)
    with pytest.raises(RedisUnavailable):
        chosen.repair("delete")
    deleted = 1500 - inspector.count("foos", state="ready")
    assert deleted > 0
    (entry,) = inspector.audit()
    assert entry.outcome == f"{deleted} of {deleted} changed, then failed: no answer"
    assert f"delete failed after {deleted} items; what is done stays done" in capsys.readouterr().err


def test_a_command_of_a_user_without_the_right_to_the_audit_is_done(
    distq: CommandLine, redis: Connection, foos: Queue
) -> None:
    """A line says that the audit does not have it."""
    user = user_of(["operator"], prefix="distq").replace(" +xadd", "").replace(" +xdel", "")
    redis.execute(*user.split())
    try:
        done = distq(
            "add", "foos", "a", DISTQ_REDIS_USERNAME="distq-operator", DISTQ_REDIS_PASSWORD="PASSWORD"
        )
    finally:
        redis.execute("ACL", "DELUSER", "distq-operator")
    assert (done.returncode, done.stdout) == (0, "added 1\n")
    assert done.stderr.count("\n") == 1
    assert "Redis did not take an action into the audit" in done.stderr
