"""The sample controller, as deployed, on a real kube-apiserver and each kind of Redis."""

import logging
import time
from collections.abc import Collection, Sequence
from functools import partial

import pytest

from distq.cli.demo.journal import count_overlaps
from tests.proofs.acceptance.audit import Audit
from tests.proofs.acceptance.conftest import AuditedCluster
from tests.proofs.acceptance.outsider import Change, Load
from tests.proofs.acceptance.processes import Process
from tests.proofs.acceptance.scene import Scene
from tests.support.parts import IN_CI
from tests.support.redis_servers import KINDS

MANY, FEW = (1000, 200) if IN_CI else (200, 200)
"""How many Foos there are on one kind of Redis, and on the others, which CI leaves to the night."""
PER_SECOND = {1000: 100.0, 200: 40.0}
DELETED_EACH = 20
WITHIN = 120.0
FOLLOWED = {"foos", "deployments"}

logger = logging.getLogger(__name__)


@pytest.mark.conformance("RD-01")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("redis_server", "foos"),
    [
        pytest.param(kind, MANY)
        if kind == "valkey9"
        else pytest.param(kind, FEW, marks=pytest.mark.night if IN_CI else ())
        for kind in KINDS
    ],
    indirect=["redis_server"],
)
def test_a_thousand_foos_outlive_a_worker_and_a_leader(
    audited_scene: Scene, audited_cluster: AuditedCluster, foos: int
) -> None:
    """All are reconciled and follow an update, none twice at a time, and nothing stays behind."""
    scene = audited_scene
    kubeconfig, audit = audited_cluster.kubeconfig, audited_cluster.audit
    leader, _ = scene.start_informers(kubeconfig("informer-1"), kubeconfig("informer-2"))
    worker, *others = scene.start_workers(*(kubeconfig(f"worker-{number}") for number in (1, 2, 3)))
    names = [f"foo-{number:04}" for number in range(foos)]
    deleted = set(names[DELETED_EACH // 2 :: DELETED_EACH])
    alive = dict.fromkeys((name for name in names if name not in deleted), 2)

    create_while_a_worker_dies(scene, names, worker)
    load = change_while_the_leader_dies(scene, names, deleted, leader, audit)
    scene.until(lambda: scene.is_done(alive), "each Foo is followed", within=WITHIN)
    scene.outsider.collect_garbage()
    scene.until(lambda: not scene.left_over(handles=len(others), objects=len(alive)), "nothing is left over")

    require_resumed_without_list(audit, leader, load)
    require_deletions_reconciled(scene, load, deleted)
    assert scene.is_done(alive)
    assert set(scene.terminate_all()) == {0}
    assert scene.left_over(handles=0, objects=len(alive)) == {}
    assert count_overlaps(scene.journals()) == 0
    assert not any(audit.requests(f"worker-{number}") for number in (1, 2, 3)), "workers list or watch"


def create_while_a_worker_dies(scene: Scene, names: Sequence[str], worker: Process) -> None:
    """Create Foos, kill a worker in mid-reconcile, and wait until each Foo has its Deployment."""
    create = scene.outsider.create
    load = Load([Change(name, partial(create, name, 1)) for name in names], PER_SECOND[len(names)])
    load.start()
    scene.until(lambda: load.done > len(names) // 4, "a quarter is created")
    scene.until(worker.killed_in_mid_reconcile, "the worker is in mid-reconcile")
    assert not load.is_over(), "the worker died after the load"
    scene.until(load.is_over, "all are created", within=WITHIN)
    scene.until(lambda: scene.is_done(dict.fromkeys(names, 1)), "each Foo is reconciled", within=WITHIN)
    took, count = time.monotonic() - load.changes[0].asked, len(scene.journals())
    logger.info("%d Foos created and reconciled in %.1f s, %d reconciles", len(names), took, count)
    require_cut_short_run_again(scene, worker)


def require_cut_short_run_again(scene: Scene, worker: Process) -> None:
    """Check that what the killed worker had begun was begun again."""
    died = worker.killed_at or 0.0
    cut_short = {entry.key for entry in worker.journal() if entry.end == died}
    latest_first = sorted(scene.journals(), key=lambda entry: -entry.start)
    again = {entry.key: entry.start - died for entry in latest_first if entry.start > died}
    assert cut_short <= again.keys()
    after = sorted(again[key] for key in cut_short)
    logger.info("%d cut short, begun again after %.2f to %.2f s", len(after), after[0], after[-1])


def change_while_the_leader_dies(
    scene: Scene, names: Sequence[str], deleted: Collection[str], leader: Process, audit: Audit
) -> Load:
    """Scale or delete all Foos, and kill the leader in mid-watch."""
    scale, delete = scene.outsider.scale, scene.outsider.delete
    changes = [
        Change(name, partial(delete, name) if name in deleted else partial(scale, name, 2)) for name in names
    ]
    load = Load(changes, PER_SECOND[len(names)])
    load.start()
    scene.until(lambda: load.done > len(names) // 10, "a tenth is changed")
    watched = {
        one.resource for one in audit.requests(leader.name) if one.verb == "watch" and one.ended is None
    }
    assert watched >= FOLLOWED, "the leader is not in mid-watch"
    leader.kill()
    assert not load.is_over(), "the leader died after the load"
    scene.until(load.is_over, "all are changed", within=WITHIN)
    return load


def require_resumed_without_list(audit: Audit, leader: Process, load: Load) -> None:
    """Check, in kube-apiserver's own words, that the second informer only went on where the first ended."""
    asked = [one for one in audit.requests("informer-2") if one.resource in FOLLOWED]
    watches = [one for one in asked if one.verb == "watch"]
    assert {one.resource for one in watches} == FOLLOWED
    assert all(one.is_resumed_watch for one in watches)
    assert all(one.is_version_check for one in asked if one.verb == "list")
    assert any(not one.is_version_check for one in audit.requests(leader.name) if one.verb == "list")
    died = leader.killed_at or 0.0
    resumed = max(min(one.received for one in watches if one.resource == each) for each in FOLLOWED)
    unseen = [change for change in load.changes if died < change.answered < resumed]
    assert unseen, "nothing happened while no process led"
    logger.info(
        "resumed after %.2f s with %d lists of one and %d watches, %d changes later",
        *(resumed - died, len(asked) - len(watches), len(watches), len(unseen)),
    )


def require_deletions_reconciled(scene: Scene, load: Load, deleted: Collection[str]) -> None:
    """Check that each deleted Foo was looked at once more."""
    last = {entry.key: entry.start for entry in sorted(scene.journals(), key=lambda entry: entry.start)}
    missed = [
        change.name
        for change in load.changes
        if change.name in deleted and last[f"{scene.outsider.namespace}/{change.name}"] < change.asked
    ]
    assert missed == []
