"""Faults of informers, and of their API server."""

import itertools
import time

from distq.informer.listwatch import ListWatch
from distq.informer.objects import is_older
from distq.inspector import Inspector
from tests.informer.faulty_proxy import Answer, is_watch, ok, refusal
from tests.proofs.nemesis.catalogue import fault
from tests.proofs.nemesis.gardener import NAMESPACE
from tests.proofs.nemesis.stage import LEASE_NAME, Stage
from tests.support.api_servers import RealApiServer

RAISED_BY_OBJECTS = ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError", "MemoryError")
"""What the predicate of the subject raises, where an object says so."""


@fault("F3", "the next leader goes on where it ended", server="redis7")
def leader_killed(stage: Stage) -> None:
    """Kill the leading informer (-9)."""
    stage.leader().kill()


@fault("F3b", "the next leader takes over at once", server="redis6")
def leader_is_terminated(stage: Stage) -> None:
    """Send a SIGTERM to the leading informer."""
    leader = stage.leader()
    leader.terminate()
    stage.until(leader.has_ended, "it ends")
    if leader.status:
        stage.surprises.append(f"it ended with {leader.status}")


@fault("F4", "its late commits are refused, and it ends", server="redis7")
def leader_frozen(stage: Stage) -> None:
    """Freeze the leader for twice its lease, while another one leads, and let it go on."""
    leader = stage.leader()
    leader.freeze()
    begun = time.monotonic()
    stage.sleep(10.0)
    leader.thaw()
    stage.sleep(1.0)
    stage.healed_from = begun


@fault("F5", "they come to be one; nothing is lost", server="redis7")
def lease_deleted(stage: Stage) -> None:
    """Delete the Lease under its leader, three times: another one may lead beside it."""
    for _ in range(3):
        stage.leader()
        stage.api.client().delete("coordination.k8s.io/v1/Lease", f"{NAMESPACE}/{LEASE_NAME}")
        stage.sleep(1.5)


@fault("F8", "it stops before another one leads")
def leader_cut_off_from_api(stage: Stage) -> None:
    """Let the leader's connections to the API server hang for twice its lease."""
    gate = stage.api_gates[stage.leader().name]
    gate.mode = "hang"
    begun = time.monotonic()
    stage.sleep(10.0)
    gate.mode = "pass"
    stage.sleep(1.0)
    stage.healed_from = begun


@fault("F24", "watches resume, or a list is compared with what is known", server="redis7")
def api_misbehaves(stage: Stage) -> None:
    """Answer watches and lists with 410, 429, 500, an ERROR event, half a line, and what is no JSON."""
    gone = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
    answers = itertools.cycle(
        [
            refusal(410),
            refusal(429, **{"Retry-After": "1"}),
            refusal(500),
            ok(gone),
            ok(b'{"type":"MODIFIED","object":{"kind":"Conf'),
            ok(b"no JSON\n"),
        ]
    )

    def misbehave(path: str) -> Answer | None:
        if not is_watch(path) and "configmaps?" not in path:
            return None
        return next(answers) if stage.chance.random() < 0.8 else None

    stage.faulty_api.fault = misbehave
    for _ in range(6):
        stage.faulty_api.end_streams()
        stage.sleep(1.0)
    stage.faulty_api.fault = lambda _: None


@fault("F24b", "the watch resumes, or a list is compared with what is known", server="redis7", real=True)
def api_restarted(stage: Stage) -> None:
    """Kill kube-apiserver (-9) and start it again."""
    assert isinstance(stage.api, RealApiServer)
    stage.api.stop_api_server()
    stage.sleep(1.0)
    stage.api.start_api_server()


@fault("F24c", "a list is compared with what is known", server="redis7", real=True)
def history_compacted(stage: Stage) -> None:
    """Compact etcd's history and restart kube-apiserver while informers cannot reach it."""
    assert isinstance(stage.api, RealApiServer)
    for gate in stage.api_gates.values():
        gate.mode = "refuse"
    stage.sleep(2.0)
    newest = stage.api.client().apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": {"now": "yes"}}}
    )
    stage.api.compact(newest["metadata"]["resourceVersion"])
    stage.api.restart_api_server()
    for gate in stage.api_gates.values():
        gate.mode = "pass"


@fault("F25", "everything is listed, and deleted objects are enqueued, too", server="redis7", real=True)
def cluster_restored(stage: Stage) -> None:
    """Put etcd back to a copy of some seconds before, in which its versions are far lower."""
    assert isinstance(stage.api, RealApiServer)
    stage.api.back_up()
    # else the cluster might be past its old version when the leader looks, however late that is
    stage.api.raise_version(by=1000)
    raised = ListWatch(stage.api.client(), "v1/Namespace").version()
    stage.until(lambda: _has_committed(stage, raised), "the leader is past that")
    stage.sleep(1.0)
    stage.gardener.rest()
    stage.api.restore()
    stage.gardener.go_on_from_cluster()
    stage.cause_is_gone()
    stage.sleep(2.0)


def _has_committed(stage: Stage, version: str) -> bool:
    """Return whether the stream's checkpoint is past a version of the cluster."""
    (stream,) = Inspector(stage.connection).streams("maps")
    return stream.version is not None and is_older(version, stream.version)


@fault(
    "F40",
    "its key becomes dead, the leader goes on; the object's deletion removes the dead key",
    server="redis7",
)
def function_raises_exits(stage: Stage) -> None:
    """Let a predicate raise SystemExit, KeyboardInterrupt and their like, on deletions too."""
    leader, client = stage.leader(), stage.api.client()
    keys = {f"{NAMESPACE}/raises-{kind.lower()}": kind for kind in RAISED_BY_OBJECTS}
    for key, kind in keys.items():
        metadata = {"name": key.rpartition("/")[2], "namespace": NAMESPACE, "labels": {"nemesis": "yes"}}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        client.apply({**obj, "data": {"version": "0", "raises": kind}})
    stage.until(lambda: keys.keys() <= _dead(stage), "all are parked")
    for key in keys:
        client.delete("v1/ConfigMap", key)
    stage.until(lambda: not keys.keys() & _dead(stage), "none is parked any more")
    if leader.has_ended():
        stage.surprises.append(f"the leader ended with {leader.status}")


def _dead(stage: Stage) -> set[str]:
    return {item.key for item in Inspector(stage.connection).items("maps", state="dead")}
