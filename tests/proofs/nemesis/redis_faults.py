"""Faults of Redis itself."""

import shutil
import socket
import time
from contextlib import suppress

from distq.errors import DistqError
from distq.inspector import Inspector
from distq.redisio.keys import queue_key
from tests.proofs.nemesis.catalogue import fault
from tests.proofs.nemesis.stage import Stage
from tests.support.tcp_proxy import TcpProxy

STRUCTURES = (
    *("ready", "suspects", "dirty", "processing", "claims", "delayed", "failures"),
    *("sessions", "workers", "meta"),
)


@fault("F9", "nothing is lost; what ended meanwhile is settled")
def redis_killed(stage: Stage) -> None:
    """Kill Redis (-9), and start it over its log (everysec) after two seconds."""
    stage.restart_redis(away=2.0)


@fault("F9b", "nothing is lost; workers fence themselves meanwhile", server="redis6", cuts_off=True)
def redis_away(stage: Stage) -> None:
    """Kill Redis (-9), and start it over its log after one and a half claim durations."""
    stage.restart_redis(away=1.5 * stage.claim_duration)


@fault("F10", "the leader lists anew", server="redis6", forgets=True)
def redis_killed_without_log(stage: Stage) -> None:
    """Kill Redis (-9), and start it with nothing."""
    nothing = stage.folder / "nothing"
    nothing.mkdir(exist_ok=True)
    stage.restart_redis(away=0.5, instead=nothing)


@fault("F11", "the leader replays, workers compare what they hold", server="redis7", forgets=True)
def redis_rolled_back(stage: Stage) -> None:
    """Kill Redis (-9), and start it as it was three seconds before, as after a loss of power."""
    older = stage.folder / "older"
    shutil.copytree(stage.data, older)
    stage.sleep(3.0)
    stage.restart_redis(away=0.2, instead=older)
    shutil.rmtree(older)


@fault("F12", "the leader replays, workers compare what they hold", forgets=True)
def failover_loses_writes(stage: Stage) -> None:
    """Kill the primary (-9), and promote a replica that misses the last two seconds."""
    old = stage.redis
    folder = stage.folder / f"replica-{old.port}"
    folder.mkdir()
    with TcpProxy(("127.0.0.1", old.port)) as link:
        new = stage.new_redis(folder, "--replicaof", "127.0.0.1", str(link.port))
        new.start()
        stage.until(lambda: "master_link_status:up" in _info(new.port), "the replica follows")
        stage.sleep(1.0)
        link.mode = "hang"
        stage.sleep(2.0)
        old.stop()
    _promote(new.port)
    stage.data = folder
    stage.move_to(new)
    for gate in stage.gates.values():
        gate.reset()


@fault("F14", "nothing is lost: clients of the old primary connect anew")
def planned_failover(stage: Stage) -> None:
    """Pause writes (CLIENT PAUSE), promote the replica, and let the old primary follow it."""
    old = stage.redis
    folder = stage.folder / f"replica-{old.port}"
    folder.mkdir()
    new = stage.new_redis(folder, "--replicaof", "127.0.0.1", str(old.port))
    new.start()
    stage.until(lambda: "master_link_status:up" in _info(new.port), "the replica follows")
    stage.sleep(1.0)
    # a pause of all would hold back REPLICAOF, too, until adds that waited had got through
    _run_at(old.port, "CLIENT PAUSE 600000 WRITE")
    stage.until(lambda: _offset(old.port) == _offset(new.port), "the replica has all")
    _promote(new.port)
    stage.data = folder
    stage.move_to(new)
    _run_at(old.port, f"REPLICAOF 127.0.0.1 {new.port}")
    stage.sleep(2.0)
    _run_at(old.port, "CLIENT UNPAUSE")
    stage.sleep(1.0)
    stage.cause_is_gone()
    stage.sleep(2.0)
    old.stop()
    stage.sleep(1.0)


@fault("F15", "the leader lists anew; claims are cancelled", server="redis7", forgets=True)
def wiped(stage: Stage) -> None:
    """Send FLUSHALL."""
    stage.run("FLUSHALL")


@fault(
    "F16",
    "what informers feed is back after `distq resync`",
    server="redis6",
    forgets=True,
    spoils=True,
    untraced=True,
)
def structures_deleted(stage: Stage) -> None:
    """Delete one structure of each queue after another."""
    for name in stage.chance.sample(STRUCTURES, len(STRUCTURES)):
        stage.run("DEL", queue_key("jobs", name), queue_key("maps", name))
        stage.sleep(0.4)
    stage.sleep(stage.claim_duration)
    Inspector(stage.connection).resync("maps")


@fault("F17", "no process notices", server="redis6", spares_sessions=True)
def scripts_flushed(stage: Stage) -> None:
    """Send SCRIPT FLUSH twenty times a second."""
    for _ in range(60):
        stage.run("SCRIPT", "FLUSH")
        stage.sleep(0.05)


@fault("F18", "adds are refused; claims and settlements go on", server="redis7", spares_sessions=True)
def memory_full(stage: Stage) -> None:
    """Let Redis be full (noeviction) for longer than a claim duration, when items fall due."""
    for number in range(10):  # else all may be done before it is full
        stage.add(f"due/{number}-{time.monotonic_ns()}", after=stage.claim_duration / 2)
    before = len([each for each in stage.fleet.attempts() if each.accepted])
    stage.run("CONFIG", "SET", "maxmemory", "1")
    stage.sleep(1.2 * stage.claim_duration)
    if len([each for each in stage.fleet.attempts() if each.accepted]) == before:
        stage.surprises.append("nothing was settled while Redis was full")
    stage.run("CONFIG", "SET", "maxmemory", "0")


@fault("F19", "a new worker refuses it by name; running workers go on")
def policy_evicts(stage: Stage) -> None:
    """Let Redis evict what it likes (allkeys-lru), and kill a worker: another one starts."""
    stage.run("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    killed = stage.fleet.processes["worker-1"]
    killed.kill()

    def is_refused() -> bool:
        later = [
            each for each in stage.fleet.every_process() if each.name == killed.name and each is not killed
        ]
        return any(each.status == 2 and "may evict work" in each.log() for each in later)

    stage.until(is_refused, "a worker says why it does not start")
    stage.run("CONFIG", "SET", "maxmemory-policy", "noeviction")


@fault("F20", "it is waited out", server="redis7")
def slow_script(stage: Stage) -> None:
    """Run another program's script for four seconds: Redis answers BUSY."""
    spin = "local n = 0 while true do n = n + 1 end"
    stage.run("CONFIG", "SET", "lua-time-limit", "200")
    hurried = stage.connection.with_timeout(0.3)
    with suppress(DistqError):
        hurried.execute("EVAL", spin, 0)
    stage.sleep(4.0)
    _run_at(stage.redis.port, "SCRIPT KILL")
    hurried.close()


@fault("F20b", "it is waited out", server="redis6")
def redis_frozen(stage: Stage) -> None:
    """Let Redis do nothing for three seconds (CLIENT PAUSE, then DEBUG SLEEP)."""
    stage.run("CLIENT", "PAUSE", "1500")
    time.sleep(1.5)
    with suppress(DistqError):
        stage.connection.execute("DEBUG", "SLEEP", "1.5")


@fault("F21", "nothing changes but the errors; all goes on once the types are right again", server="redis7")
def wrong_types(stage: Stage) -> None:
    """Give structures of both queues a wrong type for a second each."""
    for name in ("ready", "delayed", "processing", "dirty"):
        stage.until(lambda: _swap(stage, name), "there is one to swap")  # noqa: B023 - called at once
        stage.sleep(1.0)
        for queue in ("jobs", "maps"):
            key = queue_key(queue, name)
            script = "redis.call('DEL', KEYS[1]) redis.call('RENAME', KEYS[2], KEYS[1])"
            if stage.run("EXISTS", f"{key}:aside"):
                stage.run("EVAL", script, 2, key, f"{key}:aside")


@fault("F22", "no session lapses by it; delays follow the server's clock", spares_sessions=True)
def clock_steps(stage: Stage) -> None:
    """Step the server's clock an hour back, and two hours on, where it stays."""
    stage.clock.step(0.001)  # follow-up turns go by the server's own clock: let them pass
    stage.sleep(2.5)
    for hours in (-1, 1):
        stage.clock.step(hours * 3600.0)  # not on and then back: what fell due in between would wait an hour
        stage.sleep(2.5)


@fault("F23", "everything is refused, then healed", server="redis7", cuts_off=True)
def replicas_missing(stage: Stage) -> None:
    """Let Redis take no writes for longer than a claim duration: NOREPLICAS."""
    stage.run("CONFIG", "SET", "min-replicas-to-write", "1")
    stage.sleep(1.2 * stage.claim_duration)
    stage.run("CONFIG", "SET", "min-replicas-to-write", "0")


@fault("F36", "everything is refused, then healed", server="redis6")
def disk_full(stage: Stage) -> None:
    """Let Redis be unable to save, and take no writes for four seconds: MISCONF."""
    blocked = stage.data / "dump.rdb"
    blocked.unlink(missing_ok=True)  # a server that was a replica has one
    blocked.mkdir()
    (blocked / "in-the-way").touch()
    stage.run("CONFIG", "SET", "save", "3600 1")
    stage.run("BGSAVE")
    stage.until(lambda: "rdb_last_bgsave_status:err" in _saving(stage), "a save fails")
    stage.sleep(4.0)
    shutil.rmtree(blocked)
    stage.run("CONFIG", "SET", "save", "")
    stage.until(lambda: _saves(stage), "a save succeeds")


@fault("F34", "it is refused by name, tried again, and goes on", server="redis7")
def rights_taken(stage: Stage) -> None:
    """Take the right to run scripts from the login for three seconds."""
    stage.run("ACL", "SETUSER", "default", "-evalsha", "-eval", "-script")
    stage.sleep(3.0)
    stage.run("ACL", "SETUSER", "default", "+@all")


def _swap(stage: Stage, name: str) -> bool:
    """Put a string in the place of a structure, of those queues that have it; return whether one had."""
    script = "if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end redis.call('RENAME', KEYS[1], KEYS[2]) "
    script += "redis.call('SET', KEYS[1], 'wrong') return 1"
    keys = [queue_key(queue, name) for queue in ("jobs", "maps")]
    return 1 in [stage.run("EVAL", script, 2, key, f"{key}:aside") for key in keys]


def _saving(stage: Stage) -> str:
    return str(stage.run("INFO", "persistence"))


def _saves(stage: Stage) -> bool:
    """Begin another save unless one is under way; return whether the last one succeeded."""
    told = _saving(stage)
    if "rdb_bgsave_in_progress:0" in told and "rdb_last_bgsave_status:err" in told:
        stage.run("BGSAVE")
    return "rdb_last_bgsave_status:ok" in told


def _info(port: int) -> str:
    return _run_at(port, "INFO replication")


def _offset(port: int) -> str:
    """Return how far a server's data goes."""
    return _info(port).partition("\nmaster_repl_offset:")[2].split()[0]


def _promote(port: int) -> None:
    _run_at(port, "REPLICAOF NO ONE")


def _run_at(port: int, command: str) -> str:
    """Run a command at a server that distq would refuse to use: a replica, a busy one."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(command.encode() + b"\r\n")
        return connection.recv(1 << 16).decode()
