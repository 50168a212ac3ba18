"""Faults from outside: readers of logs that hang, odd objects, and floods of large ones."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from distq.client import Object
from distq.inspector import Inspector
from tests.informer.faulty_proxy import Answer, Fault, is_watch, ok, once, refusal
from tests.proofs.nemesis.catalogue import fault
from tests.proofs.nemesis.fleet_process import FleetProcess
from tests.proofs.nemesis.gardener import NAMESPACE
from tests.proofs.nemesis.stage import Stage

GRACE = 10.0
"""Seconds in which a process ends after SIGTERM; Kubernetes gives three times as many."""

CHATTY = 30
"""Items that have much to say: one worker of three does three of them."""

DROPPED = "dropped: stderr was"
CONFIG_MAP, ROLE = "v1/ConfigMap", "rbac.authorization.k8s.io/v1/Role"
ODD_NAMES = ("r" * 1100, "line\nbreak", "tab\tand\0zero", "{roles}:ready", " ")
ODD_PARTS: tuple[dict[str, Any], ...] = (
    {"metadata": {"name": "odd-0", "namespace": NAMESPACE, "labels": 7}},
    {"metadata": {"name": "odd-1", "namespace": NAMESPACE, "annotations": [None]}},
    {"rules": {"a": 1}},
)
LARGE, LARGE_BYTES = 250, 1_300_000
LATE = 3.0
"""Seconds for which a watch is refused; the others go on after one or two."""
MEMORY = 512 * 2**20
"""Bytes that the manifests of ``distq manifests`` and of deploy/ allow a container."""


@contextmanager
def _unread(process: FleetProcess) -> Iterator[None]:
    """Let no reader take what a process logs."""
    process.log_pipe.hang(process.pid)
    try:
        yield
    finally:
        process.log_pipe.read_on()


def _ends(stage: Stage, process: FleetProcess) -> None:
    """Terminate a process, and see that it ends, and well."""
    process.terminate()
    stage.until(process.has_ended, f"{process.name} ends", within=GRACE + stage.lateness.slack())
    if process.status:
        stage.surprises.append(f"{process.name} ended with {process.status}")


@fault(
    "F41", "its stream goes on, what is not written is counted, and it ends within its grace", server="redis6"
)
def log_of_leader_unread(stage: Stage) -> None:
    """Stop reading the leader's log while it logs much; then send it a SIGTERM."""
    leader = stage.leader()
    with _unread(leader):
        for number in range(2):
            _create(stage, f"chatty-{number}", version="1", says="much")
            stage.until(lambda: _ran(stage, f"chatty-{number}"), "the key comes")  # noqa: B023 - called at once
    stage.until(lambda: DROPPED in leader.log(), "it says what it dropped")
    with _unread(leader):
        if leader.has_ended():
            stage.surprises.append(f"the leader ended with {leader.status}")
        _ends(stage, leader)
    _delete(stage, CONFIG_MAP, ["chatty-0", "chatty-1"])


@fault("F41b", "its items are done, what is not written is counted, and it ends within its grace")
def log_of_worker_unread(stage: Stage) -> None:
    """Stop reading a worker's log while reconciles log much; then send it a SIGTERM."""
    worker = stage.fleet.named("worker")[0]
    numbers = iter(range(CHATTY))

    def has_done(chatty: int) -> bool:
        for number in islice(numbers, 1):  # whichever worker takes it, each of its own namespace
            stage.add(f"chatty-{number}/{time.monotonic_ns()}")
        worker.journal.read_on()
        runs = worker.journal.reconciles.values()
        return sum(run.key.startswith("chatty") and run.kept for run in runs) >= chatty

    with _unread(worker):
        stage.until(lambda: has_done(3), "it goes on")
    stage.until(lambda: DROPPED in worker.log(), "it says what it dropped")
    with _unread(worker):
        _ends(stage, worker)


@fault(
    "F42",
    "each comes as its key, becomes dead or is left out; later ones come, and the leader goes on",
    server="redis6",
)
def odd_objects(stage: Stage) -> None:
    """Give a cached watch Roles with odd names, of 1,100 letters or two lines, and some of odd types."""
    leader, client, inspector = stage.leader(), stage.api.client(), Inspector(stage.connection)
    for name in ODD_NAMES:
        client.create(_role(name))
    _comes(stage, "good-1")
    _show(stage, "MODIFIED", *({**_role(f"odd-{n}"), **parts} for n, parts in enumerate(ODD_PARTS)))
    stage.until(
        lambda: list(inspector.items("roles", state="dead")), "the one that no index can read is parked"
    )
    _comes(stage, "good-2")
    _show(stage, "DELETED", *(_role(f"odd-{n}") for n in range(len(ODD_PARTS))))
    _delete(stage, ROLE, [*ODD_NAMES, "good-1", "good-2"])
    stage.until(lambda: not list(inspector.items("roles", state="dead")), "nothing is parked any more")
    if leader.has_ended() or leader is not stage.leader():
        stage.surprises.append(f"the leader ended with {leader.status}")


@fault("F43", "the leader's memory stays within the limit of the manifests", server="redis6")
def large_objects(stage: Stage) -> None:
    """Answer a list with 250 ConfigMaps of 1.3 MB each, in pages of the size that the leader asks for."""
    with stage.long_lease():
        leader = stage.leader()
        leader.forget_memory()
        stage.gardener.rest()  # else one is deleted while a list leaves it out, without an event
        stage.faulty_api.fault = _large_list(_new_version(stage))
        _list_anew(stage, leader)
        stage.faulty_api.fault = lambda _: None
        _list_anew(stage, leader)
        stage.gardener.go_on()
        if leader.has_ended():
            stage.surprises.append(f"the leader ended with {leader.status}")
            return
        most = leader.peak_memory()
        stage.notes.append(f"the leader took {most / 2**20:.0f} MiB")
        if most > MEMORY:
            stage.surprises.append(f"the leader took {most / 2**20:.0f} MiB")


@fault("F45", "no reconcile sees fewer children than there were when the next leader began", server="redis6")
def watches_of_different_age(stage: Stage) -> None:
    """Kill the leader (-9), give a Role two children while nothing leads, and refuse their watch a while."""
    client = stage.api.client()
    _comes(stage, "parent")
    begun = time.monotonic()
    stage.leader().kill()
    for name in ("child-1", "child-2"):
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {"role": "parent"}}
        client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    client.patch(ROLE, f"{NAMESPACE}/parent", {"metadata": {"annotations": {"touched": "yes"}}})
    refused = threading.Event()

    def refuse_children(path: str) -> Answer | None:
        if not (is_watch(path) and "/serviceaccounts?" in path):
            return None
        refused.set()
        return refusal(503)

    stage.faulty_api.fault = refuse_children
    stage.until(refused.is_set, "the next leader asks for the children's watch")
    stage.sleep(LATE)
    stage.faulty_api.fault = lambda _: None
    stage.until(lambda: _seen(stage, "parent", since=begun), "the Role is reconciled")
    if "2" not in (seen := _seen(stage, "parent", since=begun)) or seen - {"2"}:
        stage.surprises.append(f"reconciles saw {', '.join(sorted(seen))} children of two")
    _delete(stage, ROLE, ["parent"])
    _delete(stage, "v1/ServiceAccount", ["child-1", "child-2"])


def _seen(stage: Stage, name: str, *, since: float) -> set[str]:
    """Return how many children the reconciles of a Role saw since then."""
    runs = stage.fleet.reconciles()
    return {run.seen for run in runs if run.key == f"{NAMESPACE}/{name}" and run.kept and run.began > since}


def _list_anew(stage: Stage, leader: FleetProcess) -> None:
    lists = leader.log().count("v1/ConfigMap: listed at version")
    Inspector(stage.connection).resync("maps")
    stage.until(
        lambda: leader.has_ended() or leader.log().count("v1/ConfigMap: listed at version") > lists,
        "it lists the ConfigMaps",
    )


def _large_list(version: str) -> Fault:
    """Answer lists of ConfigMaps with as many large ones as are asked for."""
    text = "x" * LARGE_BYTES

    def answer(path: str) -> Answer | None:
        query = dict(parse_qsl(urlsplit(path).query))
        limit = int(query.get("limit", "0")) or LARGE
        if is_watch(path) or "/configmaps?" not in path or limit == 1:  # of one object it wants the version
            return None
        begin = int(query.get("continue", "0"))
        end = min(begin + limit, LARGE)
        metadata = {"resourceVersion": version, "continue": str(end) if end < LARGE else ""}
        items = [
            {
                "metadata": {**_metadata(f"large-{number}"), "resourceVersion": version, "uid": str(number)},
                "data": {"version": "1", "text": text},
            }
            for number in range(begin, end)
        ]
        return ok(json.dumps({"metadata": metadata, "items": items}).encode())

    return answer


def _show(stage: Stage, kind: str, *roles: Object) -> None:
    """Let the watch of Roles show events that no API server would show."""
    shown = threading.Event()
    for role in roles:
        role["metadata"] = {"resourceVersion": _new_version(stage), "uid": "odd"} | role["metadata"]
    lines = [json.dumps({"type": kind, "object": role}).encode() + b"\n" for role in roles]

    def answer() -> Answer:
        shown.set()
        return ok(*lines)

    stage.faulty_api.fault = once(lambda path: is_watch(path) and "/roles?" in path, answer)
    stage.until(lambda: _is_shown(stage, shown), "the event is shown")
    stage.faulty_api.fault = lambda _: None


def _is_shown(stage: Stage, shown: threading.Event) -> bool:
    """End the streams, and wait for a while: one that had just begun may be missed, and goes on."""
    stage.faulty_api.end_streams()
    until = time.monotonic() + 10.0
    while not shown.is_set() and time.monotonic() < until:
        stage.sleep(0.05)
    return shown.is_set()


def _new_version(stage: Stage) -> str:
    """Return a version of the cluster that is newer than what was shown so far."""
    metadata = {"name": NAMESPACE, "labels": {"now": str(time.monotonic_ns())}}
    namespace = stage.api.client().apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return str(namespace["metadata"]["resourceVersion"])


def _comes(stage: Stage, name: str) -> None:
    """Create a Role, and wait until it is reconciled."""
    stage.api.client().create(_role(name))
    stage.until(lambda: _ran(stage, name), f"{name} comes")


def _ran(stage: Stage, name: str) -> bool:
    return any(run.key == f"{NAMESPACE}/{name}" and run.kept for run in stage.fleet.reconciles())


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE, "labels": {"nemesis": "yes"}}


def _role(name: str) -> Object:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    return {**kind, "metadata": _metadata(name), "rules": [rule]}


def _create(stage: Stage, name: str, **data: str) -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    stage.api.client().create({**kind, "metadata": _metadata(name), "data": data})


def _delete(stage: Stage, resource: str, names: Sequence[str]) -> None:
    client = stage.api.client()
    for name in names:
        client.delete(resource, f"{NAMESPACE}/{name}")
