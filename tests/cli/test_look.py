"""Tables for people, JSON lines for programs, and no control characters for a terminal."""

import json
import re
import signal
import subprocess
import sys
from datetime import datetime
from typing import Any

import pytest

from distq.errors import Empty, TerminalError
from distq.redisio.audit_log import AuditLog
from distq.redisio.commit import Commit
from distq.redisio.connection import Connection
from distq.redisio.object_cache import CachedObject
from distq.redisio.queue_store import QueueStore
from distq.redisio.stream_store import StreamStore
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine


@pytest.fixture
def foos(redis: Connection) -> Queue:
    """Give a queue with an item in each state."""
    queue = Queue("foos", redis)
    queue.add("prod/web", "prod/db", "prod/api")
    queue.settle(queue.get(), TerminalError("object changed"))
    queue.get()
    queue.add("prod/db")
    queue.add("prod/later", after=100)
    return queue


def _json(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_queues_are_a_table(distq: CommandLine, foos: Queue) -> None:
    """One row a queue, under the names of the states."""
    header, row = distq("queues").stdout.splitlines()
    assert header.split()[:3] == ["QUEUE", "READY", "DELAYED"]
    assert header.split()[-3:] == ["OLDEST", "DONE/S", "WORKERS"]
    assert row.split()[:7] == ["foos", "1", "1", "1", "1", "1", "1"]
    foos.close()


def test_queues_as_json(distq: CommandLine, foos: Queue) -> None:
    """One object a queue, its moments in RFC 3339 UTC."""
    (queue,) = _json(distq("queues", "foos", "--json").stdout)
    assert queue["name"] == "foos"
    assert (queue["ready"], queue["delayed"], queue["processing"], queue["dirty"], queue["dead"]) == (1,) * 5
    assert (queue["failing"], queue["workers"], queue["paused"]) == (1, 1, False)
    assert queue["oldest_ready"].endswith("Z")
    assert datetime.fromisoformat(queue["oldest_ready"]).tzinfo is not None
    foos.close()


def test_items_are_a_table(distq: CommandLine, foos: Queue) -> None:
    """A star marks what was added again; the count goes to stderr."""
    done = distq("items", "foos")
    rows = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()}
    assert rows == {
        "KEY": "STATE",
        "prod/db": "processing*",
        "prod/api": "ready",
        "prod/later": "delayed",
        "prod/web": "dead",
    }
    assert done.stderr == "4 items (* = added again meanwhile)\n"
    foos.close()


def test_items_are_filtered_and_paged(distq: CommandLine, foos: Queue) -> None:
    """State, failing, match, limit and offset choose."""

    def keys(*options: str) -> list[str]:
        return [item["key"] for item in _json(distq("items", "foos", "--json", *options).stdout)]

    assert keys("--state", "dead") == keys("--failing") == ["prod/web"]
    assert keys("--match", "*/l*") == ["prod/later"]
    assert keys("--limit", "1", "--offset", "1") == ["prod/api"]
    assert keys("--state", "dirty") == ["prod/db"]
    foos.close()


@pytest.mark.first_contact(9)
def test_one_item_shows_all_about_it(distq: CommandLine, foos: Queue) -> None:
    """A dead item shows its reason, its error and what to do."""
    lines = distq("items", "foos", "prod/web").stdout.splitlines()
    assert lines[0] == "key       prod/web"
    assert lines[1].startswith("state     dead since ")
    assert lines[1].endswith("(terminal)")
    assert any(line.startswith("error ") and "object changed" in line for line in lines)
    assert lines[-1] == "remedy    distq requeue foos prod/web"
    (item,) = _json(distq("items", "foos", "prod/db", "--json").stdout)
    assert (item["state"], item["dirty"], item["queue"]) == ("processing", True, "foos")
    assert item["worker"]
    assert item["claim_deadline"].endswith("Z")
    foos.close()


def test_an_absent_queue_or_item_exits_1(distq: CommandLine, foos: Queue) -> None:
    """No such queue and no such item are a plain no."""
    for arguments in (["queues", "bars"], ["items", "bars"], ["items", "foos", "x"], ["workers", "bars"]):
        done = distq(*arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("distq: no ")
    foos.close()


def test_workers_are_a_table(distq: CommandLine, foos: Queue) -> None:
    """Each open handle has its row, with its items."""
    header, row = distq("workers").stdout.splitlines()
    assert header.split()[0] == "WORKER"
    assert row.split()[1] == "foos"
    (worker,) = _json(distq("workers", "foos", "--json").stdout)
    assert (worker["processing"], worker["version"]) == (1, distq("--version").stdout.split()[1])
    foos.close()


def test_nothing_is_said_on_stdout_when_there_is_nothing(distq: CommandLine) -> None:
    """Empty results are empty for programs, and a note for people."""
    for command in ("queues", "workers", "leader"):
        done = distq(command)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr
        assert distq(command, "--json").stdout == ""


def test_a_queue_that_cannot_be_read_hides_no_other(
    distq: CommandLine, foos: Queue, redis: Connection
) -> None:
    """Others are shown, its row has the cause and the fix, and the status is 1."""
    Queue("bars", redis).add("a")
    redis.execute("SET", "distq:{bars}:dead", "x")
    done = distq("queues")
    _, bars, others = done.stdout.splitlines()
    assert others.split()[:7] == ["foos", "1", "1", "1", "1", "1", "1"]
    assert bars.split()[:3] == ["bars", "-", "-"]
    assert "WRONGTYPE distq:{bars}:dead is a string" in bars
    assert "redis-cli RENAME distq:{bars}:dead distq:{bars}:dead.odd" in bars
    said = 'distq: cannot read bars. See "distq check".\n'
    assert (done.returncode, done.stderr) == (1, said)
    broken, whole = _json(distq("queues", "--json").stdout)
    assert "WRONGTYPE" in broken["broken"]
    assert (whole["broken"], whole["ready"]) == (None, 1)
    done = distq("workers")
    assert done.stdout.splitlines()[1].split()[1] == "foos"
    assert (done.returncode, done.stderr) == (1, said)
    done = distq("queues", "--flows", "--json")
    assert {flow["queue"] for flow in _json(done.stdout)} == {"foos"}
    assert (done.returncode, done.stderr) == (1, said)
    assert distq("leader").stderr == said  # and not that no process led
    for command in (["items", "bars"], ["workers", "bars"]):
        assert distq(*command).stderr.startswith("distq: cannot read bars: Redis at ")
    foos.close()


def test_workers_that_are_not_seen_are_not_said_to_be_none(
    distq: CommandLine, foos: Queue, redis: Connection
) -> None:
    """Where another key of their queue hides them, too."""
    redis.execute("SET", "distq:{foos}:streams", "x")
    done = distq("workers")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'distq: cannot read foos. See "distq check".\n'
    foos.close()


def test_a_history_that_cannot_be_read_hides_no_other(
    distq: CommandLine, foos: Queue, redis: Connection
) -> None:
    """Others are shown, then it is said why, and the status is 1."""
    Queue("bars", redis).add("a")
    redis.execute("SET", "distq:{bars}:history", "x")
    StreamStore(redis, "foos", "pods").commit(
        Commit(epoch="1", after="", new="7", batch="x")
    )  # it notes the queue
    for options, shown in ((), "foos   ready"), (("--json",), '{"queue":"foos"'):
        done = distq("queues", "--history", *options)
        assert shown in done.stdout
        assert done.stderr.startswith("no history of bars: Redis at ")
        assert done.stderr.endswith('distq: cannot read the history of bars. See "distq check".\n')
        assert done.returncode == 1
    foos.close()


@pytest.mark.first_contact(12)
def test_a_leader_that_has_gone_is_shown_as_gone(distq: CommandLine, redis: Connection) -> None:
    """With since when: one that left, one whose lease ran out; of one of 0.1.0 nothing is known."""
    Queue("foos", redis).add("a")
    now = redis.now()
    abouts: dict[str, dict[str, object]] = {
        "v1/Left": {"leader": "ada", "seen": now - 125, "lease": 15, "left": True, "synced": True},
        "v1/Lost": {"leader": "bob", "seen": now - 252, "lease": 15, "synced": True, "lag": 0},
        "v1/Leads": {"leader": "eve", "seen": now - 5, "lease": 600, "synced": True, "lag": 0},
        "v1/Old": {"leader": "old", "synced": True, "lag": 0},
    }
    for name, about in abouts.items():
        StreamStore(redis, "foos", name).commit(
            Commit(epoch="1", after="", new="7", batch="b", about={"resource": name, **about})
        )
    rows = {line.split()[1]: re.split(r"  +", line) for line in distq("leader").stdout.splitlines()[1:]}
    leaders = {name: row[2] for name, row in rows.items()}
    assert re.fullmatch(r"gone [23]m\d+s \(ada\)", leaders["v1/Left"])
    assert re.fullmatch(r"gone [45]m\d+s \(bob\)", leaders["v1/Lost"])
    assert (leaders["v1/Leads"], leaders["v1/Old"]) == ("eve", "old")
    assert rows["v1/Lost"][-4:-2] == ["-", "-"]
    lines = [json.loads(line) for line in distq("leader", "--json").stdout.splitlines()]
    gone = {line["resource"]: line["gone_since"] for line in lines}
    assert (gone["v1/Leads"], gone["v1/Old"]) == (None, None)
    assert gone["v1/Lost"].endswith("Z")


def test_a_leader_shows_its_term_and_its_last_error(distq: CommandLine, redis: Connection) -> None:
    """And whether it still does; of one of 0.1.0, and of what never failed, there is a dash."""
    Queue("foos", redis).add("a")
    now = redis.now()
    error = {"error": "secrets is forbidden", "error_at": now - 7530}
    abouts: dict[str, dict[str, object]] = {
        "v1/Fails": {"led_since": now - 3630, **error, "failing_since": now - 11_550},
        "v1/Healed": {"led_since": now - 3630, **error},
        "v1/Old": {},
    }
    for name, about in abouts.items():
        StreamStore(redis, "foos", name).commit(
            Commit(
                epoch="1", after="", new="7", batch="b", about={"resource": name, "leader": "ada", **about}
            )
        )
    rows = {line.split()[1]: re.split(r"  +", line) for line in distq("leader").stdout.splitlines()[1:]}
    assert [(row[3], row[-1]) for row in rows.values()] == [
        ("1h0m", "for 3h12m: secrets is forbidden"),
        ("1h0m", "2h5m ago: secrets is forbidden"),
        ("-", "-"),
    ]
    fails, healed, old = [json.loads(line) for line in distq("leader", "--json").stdout.splitlines()]
    fields = ("leader_since", "last_error", "last_error_at", "failing_since")
    assert [old[name] for name in fields] == [None] * 4
    assert all(fails[name] for name in fields)
    assert healed["failing_since"] is None
    assert healed["last_error_at"].endswith("Z")


def test_the_objects_that_a_watch_keeps_are_counted(distq: CommandLine, redis: Connection) -> None:
    """For people and programs; of a watch that is not cached there is nothing to count."""
    Queue("foos", redis).add("a")
    for name, about in {"v1/Pod": {"watch": "pods", "cached": []}, "v1/Secret": {}}.items():
        objects = [CachedObject(key, "7", b"{}") for key in "ab"] if about else []
        StreamStore(redis, "foos", name).commit(
            Commit(
                epoch="1", after="", new="7", batch="b", objects=objects, about={"resource": name, **about}
            )
        )
    rows = [line.split() for line in distq("leader").stdout.splitlines()]
    assert [row[8] for row in rows] == ["CACHED", "2", "-"]
    lines = [json.loads(line) for line in distq("leader", "--json").stdout.splitlines()]
    assert [line["cached"] for line in lines] == [2, None]


def test_control_characters_are_escaped(distq: CommandLine, redis: Connection) -> None:
    """An error message or a key cannot drive the terminal; right-to-left marks count, too."""
    queue = Queue("foos", redis)
    queue.add("evil/\u202ekey")
    try:
        raise TerminalError("\x1b]0;owned\x07 \x9b31m")
    except TerminalError as error:
        queue.settle(queue.get(), error)
    for arguments in (["items", "foos"], ["items", "foos", "evil/\u202ekey"], ["items", "foos", "--json"]):
        printed = distq(*arguments).stdout
        assert not set(printed) & set("\x1b\x07\x9b\u202e")
        assert "\\u202e" in printed
    queue.close()


def test_a_reader_that_leaves_early_is_no_error(distq: CommandLine, redis: Connection) -> None:
    """``distq items | head -1`` ends quietly."""
    Queue("foos", redis).add(*(f"key-{n}" for n in range(20_000)))
    process = distq.start("items", "foos", "--limit", "20000")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert "Traceback" not in (said := process.stderr.read())
    assert "Broken" not in said
    process.stderr.close()
    assert process.wait(30) == 0


def test_watching_goes_on_until_ctrl_c(distq: CommandLine, foos: Queue) -> None:
    """``--watch`` prints again and again; Ctrl-C ends it with 130 and no traceback."""
    process = distq.start("queues", "--watch", "--interval", "0.1", "--json")
    assert process.stdout is not None
    assert [json.loads(process.stdout.readline())["name"] for _ in range(3)] == ["foos"] * 3
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in said
    foos.close()


def test_help_and_looking_load_little(distq: CommandLine) -> None:
    """Modules that only some commands need are not imported by the others."""
    code = (
        "import sys\n"
        "from distq.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    for command, unwanted in {
        "--help": {"redis", "kubernetes", "rich", "aiohttp", "flask", "msgspec", "yaml"},
        "queues": {"kubernetes", "rich", "aiohttp", "flask", "msgspec", "yaml"},
    }.items():
        done = subprocess.run(
            [sys.executable, "-c", code, command],
            env=distq.environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        assert not unwanted & set(done.stderr.split())


def test_show_config_masks_secrets(distq: CommandLine) -> None:
    """The effective settings are shown, flags before variables, without passwords."""
    secrets = {"DISTQ_REDIS_URL": "redis://me:geheim@db:6379/0", "DISTQ_REDIS_PASSWORD": "geheim"}
    done = distq("queues", "--show-config", "--json", "--log-level", "debug", **secrets)
    shown = json.loads(done.stdout)
    assert (shown["log_level"], shown["redis_password"]) == ("debug", "***")
    assert shown["redis_url"] == "redis://me:***@db:6379/0"
    assert "geheim" not in distq("queues", "--show-config", **secrets).stdout


def test_version(distq: CommandLine) -> None:
    """The version is the package's."""
    from importlib.metadata import version

    assert distq("--version").stdout == f"distq {version('distq')}\n"


def test_a_prefix_chooses_the_installation(distq: CommandLine, redis: Connection) -> None:
    """By its flag or variable; what another installation has is not there."""
    assert distq("add", "foos", "a", "--prefix", "blue").returncode == 0
    assert distq("queues").stderr == "no queues yet\n"
    assert distq("queues", "--prefix", "green").stderr == 'no queues yet of the prefix "green"\n'
    assert distq("queues", DISTQ_PREFIX="blue").stdout.splitlines()[1].split()[:2] == ["foos", "1"]
    assert distq("delete", "foos", "a", "--prefix", "green").returncode == 1
    assert {key.split(b":")[0] for key in redis.execute("KEYS", "*")} == {b"blue"}
    refused = distq("queues", "--prefix", "a:b")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("distq: bad prefix: 'a:b'. Use ")


def test_the_history_of_a_queue_is_a_line_of_blocks_for_each_number(
    distq: CommandLine, redis: Connection
) -> None:
    """Least, most and last beside them; numbers that were always 0 are left out, gaps stay gaps."""
    queue = Queue("foos", redis)
    queue.add("a", "b")  # and claim none: the heartbeat would add to the history
    now = int(redis.now()) // 10 * 10
    for at, waiting, durations in ((now - 1800, 4, "c4"), (now - 900, 1, "-"), (now, 1, "c2l2")):
        chunk = f"{at // 300}\n{at} {waiting} 0 1 0 0 0 1 500 0 7 2 {durations} -\n"
        redis.execute("HSET", "distq:{foos}:history", f"10s {at // 300 % 289}", chunk)
    header, *rows = distq("queues", "--history", "--since", "2h").stdout.splitlines()
    assert header.split()[:5] == ["QUEUE", "NUMBER", "LEAST", "MOST", "LAST"]
    assert header.endswith("2h0m AGO TO NOW")
    numbers = {row.split()[1]: row.split()[2:5] for row in rows}
    assert numbers["ready"] == ["1", "4", "1"]
    assert numbers["oldest"] == ["0.5s", "0.5s", "0.5s"]
    assert numbers["waiting-p50"] == ["3ms", "4ms", "4ms"]
    assert numbers["waiting-p99"] == ["4ms", "2s", "2s"]
    assert not {"dead", "working-p50"} & numbers.keys()
    ready = next(row for row in rows if row.split()[1] == "ready")
    assert re.search(r"█ +▃ +▃$", ready)
    waited = next(row for row in rows if row.split()[1] == "waiting-p50")
    assert re.search(r"▇ +█$", waited)
    samples = _json(distq("queues", "foos", "--history", "--since", "1h", "--json").stdout)
    assert [(sample["queue"], sample["ready"]) for sample in samples][-1] == ("foos", 1)
    assert samples[-1]["at"].endswith("Z")
    assert [sample["waiting_p50"] for sample in samples] == [0.003, None, 0.004]
    assert samples[-1]["working_p99"] is None
    queue.close()


def test_a_queue_without_a_history_says_so(distq: CommandLine, redis: Connection) -> None:
    """Beside the table, and that is no error."""
    Queue("foos", redis).add("a")
    done = distq("queues", "--history")
    assert (done.stdout, done.returncode) == ("", 0)
    assert done.stderr == "no history of foos in the last 1h0m: neither a worker nor an informer ran\n"


def test_a_history_in_letters_where_the_terminal_has_no_blocks(distq: CommandLine, redis: Connection) -> None:
    """No user gets a traceback."""
    queue = Queue("foos", redis)
    queue.add("a")
    now = int(redis.now())
    chunk = f"{now // 300}\n{now} 3 0 0 0 0 0 1 - 0 0 0 - -\n"
    redis.execute("HSET", "distq:{foos}:history", f"10s {now // 300 % 289}", chunk)
    assert "#" in distq("queues", "--history", PYTHONIOENCODING="ascii", PYTHONUTF8="0").stdout


@pytest.mark.parametrize("how", [[], ["--match", "key-*"]])
def test_all_items_of_a_long_queue_are_shown_as_they_are_read(
    distq: CommandLine, redis: Connection, how: list[str]
) -> None:
    """Each once, under one header, and as JSON lines; no limit has to be chosen."""
    queue, keys = Queue("many", redis), [f"key-{number:04}" for number in range(1203)]
    queue.add(*keys[:1000])
    queue.add(*keys[1000:], priority=-1)
    done = distq("items", "many", "--all", *how)
    header, *rows = done.stdout.splitlines()
    assert header.startswith("KEY ")
    shown = [row.split()[0] for row in rows]
    assert sorted(shown) == keys
    assert how or shown == keys
    assert done.stderr == "1203 items\n"
    lines = _json(distq("items", "many", "--all", "--json", "--offset", "1200", *how).stdout)
    assert len(lines) == 3


def test_the_actions_of_people_are_shown(distq: CommandLine, redis: Connection) -> None:
    """The newest first, as a table and as JSON, without control characters for a terminal."""
    assert distq("audit").stderr == "no action yet\n"
    log = AuditLog(QueueStore(redis, "foos"))
    redis.execute("HSET", "distq:queues", "foos", "1")
    for text, outcome in (("pause foos", "done"), ("add \x1b[31m to foos", "1 new")):
        fields = {"person": "ada", "address": "10.0.3.7", "action": "pause", "text": text}
        log.end(log.begin(fields), fields | {"outcome": outcome})
    log.begin({"person": None, "address": None, "action": "resume", "text": "resume foos"})
    header, *rows = [re.split(r"  +", line) for line in distq("audit").stdout.splitlines()]
    assert header == ["WHEN", "PERSON", "FROM", "BY", "ACTION", "OUTCOME"]
    assert [row[1:] for row in rows] == [
        ["anonymous", "-", "dashboard", "resume foos", "no outcome"],
        ["ada", "10.0.3.7", "dashboard", "add \\x1b[31m to foos", "1 new"],
        ["ada", "10.0.3.7", "dashboard", "pause foos", "done"],
    ]
    (entry,) = _json(distq("audit", "--limit", "1", "--json").stdout)
    assert (entry["person"], entry["text"], entry["outcome"]) == (None, "resume foos", None)
    assert datetime.fromisoformat(entry["at"]).tzinfo is not None


@pytest.mark.parametrize("one", ["--watch", "--history", "--flows"])
def test_queues_are_shown_in_one_way_at_a_time(distq: CommandLine, one: str) -> None:
    """A second one is refused, and not ignored."""
    other = "--flows" if one == "--history" else "--history"
    done = distq("queues", one, other)
    assert done.returncode == 2
    assert "Give one of --watch, --history and --flows." in done.stderr


def test_flows_are_shown(distq: CommandLine, redis: Connection) -> None:
    """Of one queue or all, as a table and as JSON; notes say what is estimated or left out."""
    queue = Queue("foos", redis)
    assert distq("queues", "foos", "--flows").returncode == 1
    queue.add("prod/a", "prod/b", "dev/a", "plain")
    lines = distq("queues", "--flows").stdout.splitlines()
    header, *rows = [re.split(r"  +", line.strip()) for line in lines]
    assert header == [
        *("QUEUE", "FLOW", "READY", "HELD-BACK", "PROCESSING", "OLDEST", "CLAIMED"),
        *("WAITED-P50", "WAITED-P99"),
    ]
    assert [row[:4] for row in rows] == [
        ["foos", "prod", "2", "0"],
        ["foos", "dev", "1", "0"],
        ["foos", "-", "1", "0"],
    ]
    first, *_ = _json(distq("queues", "foos", "--flows", "--json").stdout)
    assert (first["flow"], first["ready"], first["claimed"], first["sample"]) == ("prod", 2, 0, False)
    assert first["waiting_p50"] is None
    for start in range(0, 4000, 1000):
        queue.add(*(f"ns-{number % 50}/{start + number}" for number in range(1000)))
    done = distq("queues", "foos", "--flows")
    assert re.search(r"foos: estimated from \d+ of 4004 ready items\nfoos: \d+ flows more\n", done.stderr)
    assert re.search(r"ns-\d+ +~\d+", done.stdout)
    queue.close()


def test_an_item_whose_workers_died_says_how_many(distq: CommandLine, redis: Connection) -> None:
    """Also before the third death: until then it looks like any other item, and its workers die."""
    Queue("foos", redis).add("prod/heavy", "prod/light")
    redis.execute("HSET", "distq:{foos}:failures", "prod/heavy", "0 2 1772342777104001 -@1,2 ")
    crashes = "crashes   2: so many workers died while they held it"
    assert crashes in distq("items", "foos", "prod/heavy").stdout
    assert "crashes" not in distq("items", "foos", "prod/light").stdout
    assert {item["key"]: item["crashes"] for item in _json(distq("items", "foos", "--json").stdout)} == {
        "prod/heavy": 2,
        "prod/light": 0,
    }


def test_items_that_are_held_back_are_shown(distq: CommandLine, redis: Connection) -> None:
    """Of a queue, of a flow and of an item: no worker claims it before a claim of its flow ends."""
    queue = Queue("foos", redis, fair_by="namespace")
    queue.fleet_concurrency_per_flow = 1
    queue.add("slow/0", "slow/1", "slow/2")
    queue.get(timeout=0)
    with pytest.raises(Empty):
        queue.get(timeout=0)
    assert distq("queues").stdout.rstrip().endswith("2 held back")
    (flow,) = _json(distq("queues", "foos", "--flows", "--json").stdout)
    assert (flow["ready"], flow["held_back"], flow["processing"]) == (2, 2, 1)
    waits = "waits     held back: its namespace is at its limit"
    assert waits in distq("items", "foos", "slow/2").stdout
    assert [item["held_back"] for item in _json(distq("items", "foos", "--json").stdout)] == [
        False,
        True,
        True,
    ]
    queue.close()
