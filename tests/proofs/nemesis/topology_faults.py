"""Faults of Redis where it is several servers: behind Sentinels, and as a cluster."""

import redis

from distq.errors import RedisUnavailable
from distq.inspector import Inspector
from distq.redisio.cluster import slot_of
from distq.redisio.keys import queue_key
from tests.proofs.nemesis.catalogue import fault
from tests.proofs.nemesis.stage import Stage
from tests.support.redis_topologies import SERVICE, raw

QUEUES = ("jobs", "maps")


@fault("F13", "nothing is lost", server="redis7", servers=("redis7", "valkey9"), topology="sentinels")
def planned_failover_of_sentinels(stage: Stage) -> None:
    """Pause the queues, hold writes until the replicas have all, and send SENTINEL FAILOVER: the runbook."""
    for port in stage.sentinels.ports:  # a busy machine that answers late fails over nothing
        raw(port)("SENTINEL", "SET", SERVICE, "down-after-milliseconds", 10_000)
    inspector = Inspector(stage.connection)
    for queue in QUEUES:
        inspector.pause(queue)
    stage.until(lambda: not any(info.processing for info in inspector.queues()), "nothing is in progress")
    stage.sentinels.wait_until_settled()
    old = stage.sentinels.primary()

    def holds() -> object:
        """Hold writes from now on for the time that the runbook names, however far it has come."""
        return raw(old)("CLIENT", "PAUSE", 20_000, "WRITE")

    stage.until(lambda: holds() and len(_offsets(stage)) == 1, "the replicas have all")
    stage.sentinels.ask_sentinel("SENTINEL", "FAILOVER", SERVICE)
    stage.until(lambda: holds() and stage.sentinels.primary() != old, "another one is the primary")
    stage.until(lambda: _resumes(inspector), "the queues go on")


@fault(
    "F13b",
    "the leader replays, workers compare what they hold",
    server="redis7",
    servers=("redis7", "valkey9"),
    topology="sentinels",
    forgets=True,
    untraced=True,
)
def primary_of_sentinels_killed(stage: Stage) -> None:
    """Kill the primary (-9): the Sentinels promote a replica, which may miss something."""
    stage.sentinels.wait_until_settled()
    old = stage.sentinels.primary()
    stage.sentinels.kill(old)
    stage.until(lambda: stage.sentinels.primary() != old, "another one is the primary")
    stage.cause_is_gone()
    stage.sentinels.start_server("--replicaof", "127.0.0.1", str(stage.sentinels.primary()))


@fault("F35", "nothing is lost", topology="cluster")
def slots_move(stage: Stage) -> None:
    """Move each queue to another node of the cluster, some of its keys at a time."""
    for port in stage.cluster.servers:  # a busy machine that answers late fails over nothing
        raw(port)("CONFIG", "SET", "cluster-node-timeout", 60_000)
    for queue in QUEUES:
        slot = _slot(queue)
        source, *primaries = _owners(stage, slot, 0, 8000, 16000)
        target = stage.chance.choice([port for port in primaries if port != source])
        stage.cluster.begin_move(slot, target, source)
        while raw(source)("CLUSTER", "COUNTKEYSINSLOT", slot):
            stage.cluster.move_keys(slot, source, target, at_most=2)
            stage.sleep(0.2)
        stage.cluster.end_move(slot, target)
        stage.sleep(1.0)


@fault("F35b", "the leader replays, workers compare what they hold", topology="cluster", forgets=True)
def owner_of_slot_killed(stage: Stage) -> None:
    """Kill the node that has a queue (-9): its replica takes over, which may miss something."""
    slot = _slot("jobs")
    dead = stage.cluster.owner(slot)
    stage.cluster.kill(dead)
    stage.until(lambda: stage.cluster.owner(slot) not in {0, dead}, "its replica takes over")


def _slot(queue: str) -> int:
    return slot_of(queue_key(queue, "meta"))


def _owners(stage: Stage, *slots: int) -> list[int]:
    """Return the ports of the primaries of some slots; on a busy machine the nodes have to agree first."""
    owners: list[int] = []

    def all_agree() -> bool:
        owners[:] = [stage.cluster.owner(slot) for slot in slots]
        return 0 not in owners

    stage.until(all_agree, "the nodes agree on the owners of the slots")
    return owners


def _offsets(stage: Stage) -> set[bytes]:
    """Return how far the primary and its replicas are."""
    infos = (raw(port)("INFO", "replication") for port in stage.sentinels.servers)
    return {info.partition(b"\nmaster_repl_offset:")[2].split()[0] for info in infos}


def _resumes(inspector: Inspector) -> bool:
    """Let the queues go on, if Redis lets us."""
    try:
        for queue in QUEUES:
            inspector.resume(queue)
    except (RedisUnavailable, redis.RedisError):
        return False
    return True
