"""The locks of the years before Leases, and the way from them to Leases; on real API servers."""

import json
import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from distq.client import Client
from distq.client.objects import Object
from distq.errors import ApiError, ConfigError, Conflict
from distq.leaderelection import LeaderElectionRecord, LeaseLock
from distq.leaderelection.lease_lock import ObjectWatch
from distq.leaderelection.legacy import ANNOTATION, UNKNOWN_LEADER, ConfigMapLock, EndpointsLock, MultiLock
from distq.testing import FakeLock
from tests.leaderelection.participants import (
    LEASE,
    LEASES,
    Participant,
    PausableClock,
    end_all,
    later,
    one_acts_at_most,
    pass_time,
)
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually

pytestmark = pytest.mark.filterwarnings("ignore:.* is for migration:DeprecationWarning")

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RECORD = LeaderElectionRecord(
    holder_identity="ada", lease_duration=15.0, acquire_time=NOON, renew_time=NOON, leader_transitions=3
)
Legacy = type[EndpointsLock] | type[ConfigMapLock]
OLD = [
    pytest.param(EndpointsLock, "v1/Endpoints", id="endpoints", marks=pytest.mark.conformance("LK-02")),
    pytest.param(ConfigMapLock, "v1/ConfigMap", id="configmaps", marks=pytest.mark.conformance("LK-03")),
]


def annotated(client: Client, kind: str, namespace: str) -> dict[str, Any]:
    """Return the record in the annotation."""
    found = client.get(kind, f"{namespace}/{LEASE}")
    assert found is not None
    record: dict[str, Any] = json.loads(found["metadata"]["annotations"][ANNOTATION])
    return record


@pytest.mark.parametrize(("lock_type", "kind"), OLD)
def test_the_annotation_is_as_client_go_wrote_it(
    client: Client, namespace: str, lock_type: Legacy, kind: str
) -> None:
    """The same five fields, times in whole seconds; and it comes back so."""
    lock = lock_type(client, namespace, LEASE, identity="ada")
    assert lock.get(timeout=5) is None
    moment = NOON.replace(microsecond=654321)
    stored = lock.create(replace(RECORD, renew_time=moment), timeout=5)
    assert annotated(client, kind, namespace) == {
        "holderIdentity": "ada",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-03-01T12:00:00Z",
        "renewTime": "2026-03-01T12:00:00Z",
        "leaderTransitions": 3,
    }
    assert stored == RECORD
    assert lock.get(timeout=5) == RECORD
    updated = lock.update(replace(RECORD, holder_identity=""), timeout=5)
    assert later(updated.version, stored.version)
    assert annotated(client, kind, namespace)["holderIdentity"] == ""


@pytest.mark.parametrize(("lock_type", "kind"), OLD)
def test_the_rest_of_the_object_is_kept(client: Client, namespace: str, lock_type: Legacy, kind: str) -> None:
    """Of one that was there before, without a record, and when others write to it."""
    content: dict[str, Any] = {"data": {"colour": "blue"}} if kind == "v1/ConfigMap" else {"subsets": []}
    client.create(
        {"apiVersion": "v1", "kind": kind[3:], "metadata": {"name": LEASE, "namespace": namespace}} | content
    )
    lock = lock_type(client, namespace, LEASE, identity="ada")
    assert lock.get(timeout=5) == LeaderElectionRecord()
    lock.update(RECORD, timeout=5)
    client.patch(kind, f"{namespace}/{LEASE}", {"metadata": {"annotations": {"note": "mine"}}})
    lock.update(replace(RECORD, leader_transitions=4), timeout=5)
    assert annotated(client, kind, namespace)["leaderTransitions"] == 4
    found = client.get(kind, f"{namespace}/{LEASE}")
    assert found is not None
    assert found["metadata"]["annotations"]["note"] == "mine"
    assert found.get("data") == content.get("data")


@pytest.mark.parametrize(("lock_type", "kind"), OLD)
def test_another_s_record_is_never_replaced(
    client: Client, namespace: str, lock_type: Legacy, kind: str
) -> None:
    """Not by a candidate that has not seen it, nor where the object is gone."""
    lock = lock_type(client, namespace, LEASE, identity="ada")
    lock.create(RECORD, timeout=5)
    other = lock_type(client, namespace, LEASE, identity="bob")
    other.get(timeout=5)
    other.update(replace(RECORD, holder_identity="bob"), timeout=5)
    with pytest.raises(Conflict):
        lock.update(RECORD, timeout=5)
    assert annotated(client, kind, namespace)["holderIdentity"] == "bob"
    client.delete(kind, f"{namespace}/{LEASE}")
    with pytest.raises(Conflict):
        other.update(RECORD, timeout=5)
    assert client.get(kind, f"{namespace}/{LEASE}") is None


@pytest.mark.conformance("LK-02", "LK-03")
def test_an_annotation_that_is_no_record_is_an_error(client: Client, namespace: str) -> None:
    """No process leads by it; but the official Python client's record can be read."""
    metadata = {"name": LEASE, "namespace": namespace, "annotations": {ANNOTATION: "[]"}}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    lock = ConfigMapLock(client, namespace, LEASE, identity="ada")
    with pytest.raises(ApiError, match="no record can be read"):
        lock.get(timeout=5)
    written = {"holderIdentity": "eve", "leaseDurationSeconds": "15", "renewTime": "2026-03-01 12:00:00.5"}
    patch = {"metadata": {"annotations": {ANNOTATION: json.dumps(written)}}}
    client.patch("v1/ConfigMap", f"{namespace}/{LEASE}", patch)
    found = lock.get(timeout=5)
    assert found is not None
    assert (found.holder_identity, found.lease_duration) == ("eve", 15.0)


@pytest.mark.parametrize(
    "record",
    [
        '{"holderIdentity":{"name":"eve"},"leaseDurationSeconds":15}',
        '{"holderIdentity":7,"leaseDurationSeconds":15}',
        '{"holderIdentity":"eve","leaseDurationSeconds":NaN}',
        '{"holderIdentity":"eve","leaseDurationSeconds":Infinity}',
    ],
)
def test_no_record_of_others_ends_an_elector(client: Client, namespace: str, record: str) -> None:
    """No process leads by one that is no record, and it is competed for again once it is one."""
    metadata = {"name": LEASE, "namespace": namespace, "annotations": {ANNOTATION: record}}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    lock = ConfigMapLock(client, namespace, LEASE, identity="ada")
    with pytest.raises(ApiError, match="no record can be read"):
        lock.get(timeout=5)
    ada = Participant(lock, clock=PausableClock()).start()
    try:
        ada.settle()
        assert not ada.elector.may_act()
        client.patch("v1/ConfigMap", f"{namespace}/{LEASE}", {"metadata": {"annotations": {ANNOTATION: ""}}})
        pass_time(5.0, ada)
        eventually(ada.elector.may_act)
    finally:
        end_all([ada])


@pytest.mark.conformance("LK-05")
@pytest.mark.parametrize("lock_type", [EndpointsLock, ConfigMapLock])
def test_an_old_lock_says_how_to_go_on(lock_type: Legacy) -> None:
    """It warns when one is made, and works."""
    advice = "Compete by MultiLock(it, LeaseLock) for one release, then by LeaseLock alone."
    with pytest.warns(DeprecationWarning, match=re.escape(advice)):
        lock_type(Client("/nowhere"), "default", LEASE)


def multi(client: Client, namespace: str, identity: str) -> MultiLock:
    """Return both locks as one."""
    return MultiLock(
        ConfigMapLock(client, namespace, LEASE, identity=identity),
        LeaseLock(client, namespace, LEASE, identity=identity),
    )


@pytest.mark.conformance("LK-04")
def test_two_locks_keep_one_record(client: Client, namespace: str) -> None:
    """Both are created and written; the version is that of the Lease."""
    lock = multi(client, namespace, "ada")
    assert lock.get(timeout=5) is None
    created = lock.create(RECORD, timeout=5)
    lease = client.get(LEASES, f"{namespace}/{LEASE}")
    assert lease is not None
    assert created.version == lease["metadata"]["resourceVersion"]
    assert annotated(client, "v1/ConfigMap", namespace)["holderIdentity"] == "ada"
    assert lock.get(timeout=5) == created
    updated = lock.update(replace(RECORD, leader_transitions=4), timeout=5)
    assert later(updated.version, created.version)
    assert lock.describe() == f"{namespace}/{LEASE}"


@pytest.mark.conformance("LK-04")
def test_the_record_of_two_locks_together() -> None:
    """The old one alone where there is no Lease; an unknown holder where they differ; news of either."""
    old, new = FakeLock("ada"), FakeLock("ada")
    lock = MultiLock(old, new)
    old.record = RECORD
    alone = lock.get(timeout=1)
    assert alone is not None
    assert alone.holder_identity == "ada"
    new.record = replace(RECORD, holder_identity="bob", lease_duration=40.0)
    differ = lock.get(timeout=1)
    assert differ is not None
    assert (differ.holder_identity, differ.lease_duration) == (UNKNOWN_LEADER, 40.0)
    new.record = replace(new.record, renew_time=NOON.replace(second=9))
    renewed = lock.get(timeout=1)
    assert renewed not in (None, differ)
    old.record = None
    secondary = lock.get(timeout=1)
    assert secondary is not None
    assert secondary.holder_identity == "bob"


@pytest.mark.conformance("LK-04")
def test_the_lease_is_created_beside_an_old_lock() -> None:
    """At the first write of a candidate that finds only the old one; a new Lease is not replaced."""
    old, new = FakeLock("ada"), FakeLock("ada")
    lock = MultiLock(old, new)
    old.record = replace(RECORD, holder_identity="")
    lock.get(timeout=1)
    lock.update(RECORD, timeout=1)
    assert old.record.holder_identity == "ada"
    assert new.record == RECORD
    another = MultiLock(FakeLock("bob", rival_of=old), FakeLock("bob", rival_of=new))
    with pytest.raises(Conflict):
        another.create(RECORD, timeout=1)


@pytest.mark.conformance("LK-04")
def test_two_locks_need_one_identity() -> None:
    """Or one process would be two."""
    with pytest.raises(ConfigError, match="Give both locks the same one"):
        MultiLock(FakeLock("ada"), FakeLock("bob"))


@pytest.mark.conformance("LK-04")
def test_events_go_to_both_objects() -> None:
    """Events go to both."""
    old, new = FakeLock("ada"), FakeLock("ada")
    MultiLock(old, new).record_event("ada became leader")
    assert old.events == new.events == ["ada became leader"]


@pytest.mark.conformance("LK-04", "LK-05")
def test_a_rollout_goes_from_the_old_lock_to_the_lease(api_server: ApiServer, namespace: str) -> None:
    """By two locks at once: through all steps one acts at most, and epochs grow."""
    client = api_server.client()
    history: list[str] = []
    steps: list[Callable[[str], Any]] = [
        lambda identity: ConfigMapLock(client, namespace, LEASE, identity=identity),
        lambda identity: multi(client, namespace, identity),
        lambda identity: LeaseLock(client, namespace, LEASE, identity=identity),
    ]
    with ExitStack() as ending:
        fleet: list[Participant] = []
        ending.callback(end_all, fleet)

        def enter(step: int, number: int) -> Participant:
            lock = steps[step](f"process-{step}-{number}")
            fleet.append(Participant(lock, clock=PausableClock(), history=history))
            return fleet[-1]

        running = [enter(0, 0).lead(), enter(0, 1).follow()]
        for step in 1, 2:
            for number in 0, 1:
                comes = enter(step, number).start()
                comes.settle()
                goes = running.pop(0)
                running.append(comes)
                with one_acts_at_most(goes, *running):
                    pass_time(1.0, goes, *running)
                    goes.end()
                    pass_time(16.0, *running)  # after a release by one lock only it takes a lease
                    eventually(lambda: any(each.elector.may_act() for each in running))
    assert len(history) >= 3  # a newcomer may be the next leader, and then outlives a follower
    assert all(later(after, before) for before, after in pairwise(history))


def test_a_watch_of_an_object_that_is_no_record_backs_off(api_server: ApiServer, namespace: str) -> None:
    """It begins with the object as it is, so that each connection would end at once."""
    client = api_server.client()
    about = {"name": LEASE, "namespace": namespace}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about})

    def take(found: Object) -> None:
        raise ValueError(f"no record in {found['kind']}")

    class Pauses(threading.Event):
        """Reports the watch as closed in its seventh pause."""

        seconds: ClassVar[list[float]] = []

        def wait(self, timeout: float | None = None) -> bool:
            """Note the pause, and do not wait."""
            self.seconds.append(timeout or 0.0)
            if len(self.seconds) == 7:
                self.set()
            return self.is_set()

    watch = ObjectWatch(client, f"/api/v1/namespaces/{namespace}/configmaps", LEASE, take)
    watch._closed = Pauses()
    watch._run()
    assert Pauses.seconds[0] <= 0.5
    assert Pauses.seconds[-1] >= 15.0
