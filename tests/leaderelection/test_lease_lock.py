"""The content of the Lease, and which process may replace it; as client-go's, on real API servers."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from distq.client import Client
from distq.errors import ConfigError, Conflict
from distq.leaderelection import LeaderElectionRecord, LeaseLock
from tests.leaderelection.participants import LEASE, LEASES, lease_of
from tests.support.eventually import eventually

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RECORD = LeaderElectionRecord(
    holder_identity="ada", lease_duration=15.0, acquire_time=NOON, renew_time=NOON, leader_transitions=3
)
SIX_DECIMALS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@pytest.fixture
def lock(client: Client, namespace: str) -> LeaseLock:
    """Give a lock on a Lease that does not exist yet."""
    return lease_lock(client, namespace, "ada")


def lease_lock(client: Client, namespace: str, identity: str) -> LeaseLock:
    """Return a lock on the tests' Lease."""
    return LeaseLock(client, namespace, LEASE, identity=identity)


def renewed(record: LeaderElectionRecord, second: int, holder: str = "ada") -> LeaderElectionRecord:
    """Return the record as it is after a renewal at that second."""
    return LeaderElectionRecord(
        holder_identity=holder,
        lease_duration=record.lease_duration,
        acquire_time=record.acquire_time,
        renew_time=NOON.replace(second=second),
        leader_transitions=record.leader_transitions,
    )


@pytest.mark.conformance("LK-01")
def test_no_lease_is_no_record(lock: LeaseLock) -> None:
    """And no error."""
    assert lock.get(timeout=5) is None


@pytest.mark.conformance("LE-18", "LK-01")
def test_a_record_comes_back_as_it_was_stored(lock: LeaseLock, client: Client, namespace: str) -> None:
    """With the version of the write, from the write as from a read."""
    created = lock.create(RECORD, timeout=5)
    assert created == RECORD
    assert created.version == lease_of(client, namespace)["metadata"]["resourceVersion"]
    updated = lock.update(renewed(RECORD, 7), timeout=5)
    assert updated == renewed(RECORD, 7)
    assert updated.version != created.version
    read = lock.get(timeout=5)
    assert read == updated
    assert read.version == updated.version


@pytest.mark.conformance("LE-14", "LK-01")
def test_the_lease_is_as_client_go_writes_it(lock: LeaseLock, client: Client, namespace: str) -> None:
    """The same five fields; whole seconds rounded up; times with six decimals also on a full second."""
    lock.create(
        LeaderElectionRecord(holder_identity="ada", lease_duration=1.5, acquire_time=NOON, renew_time=NOON),
        timeout=5,
    )
    spec = lease_of(client, namespace)["spec"]
    assert spec == {
        "holderIdentity": "ada",
        "leaseDurationSeconds": 2,
        "acquireTime": "2026-03-01T12:00:00.000000Z",
        "renewTime": "2026-03-01T12:00:00.000000Z",
        "leaseTransitions": 0,
    }
    assert SIX_DECIMALS.fullmatch(spec["renewTime"])


@pytest.mark.conformance("LE-18")
@pytest.mark.parametrize(
    ("spec", "record"),
    [
        (
            {
                "holderIdentity": "web-1_5d0c",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-03-01T12:00:00.123456Z",
                "renewTime": "2026-03-01T12:00:05.000001Z",
                "leaseTransitions": None,
            },
            LeaderElectionRecord(
                holder_identity="web-1_5d0c",
                lease_duration=15.0,
                acquire_time=datetime(2026, 3, 1, 12, 0, 0, 123456, UTC),
                renew_time=datetime(2026, 3, 1, 12, 0, 5, 1, UTC),
            ),
        ),
        (
            {
                "holderIdentity": "",
                "leaseDurationSeconds": 1,
                "acquireTime": "2026-03-01T12:00:00.000000Z",
                "renewTime": "2026-03-01T12:00:00.000000Z",
                "leaseTransitions": 41,
            },
            LeaderElectionRecord(
                lease_duration=1.0, acquire_time=NOON, renew_time=NOON, leader_transitions=41
            ),
        ),
        ({"holderIdentity": "ada"}, LeaderElectionRecord(holder_identity="ada")),
        ({}, LeaderElectionRecord()),
    ],
    ids=["led", "released", "holder only", "empty"],
)
def test_records_of_others_are_read(
    lock: LeaseLock, client: Client, namespace: str, spec: dict[str, Any], record: LeaderElectionRecord
) -> None:
    """As client-go, the official Python client, or people write them."""
    client.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": namespace},
            "spec": spec,
        }
    )
    assert lock.get(timeout=5) == record


def test_other_changes_of_the_lease_are_kept(lock: LeaseLock, client: Client, namespace: str) -> None:
    """They make the write a 409 at first, which is not the caller's business."""
    lock.create(RECORD, timeout=5)
    client.patch(LEASES, f"{namespace}/{LEASE}", {"metadata": {"annotations": {"note": "mine"}}})
    assert lock.update(renewed(RECORD, 7), timeout=5) == renewed(RECORD, 7)
    assert lease_of(client, namespace)["metadata"]["annotations"] == {"note": "mine"}
    assert lock.update(renewed(RECORD, 8), timeout=5) == renewed(RECORD, 8)
    assert lease_of(client, namespace)["metadata"]["annotations"] == {"note": "mine"}


@pytest.mark.conformance("LK-01")
def test_another_record_is_never_replaced(lock: LeaseLock, client: Client, namespace: str) -> None:
    """Not by a write that has not seen it: the other's record stays."""
    lock.create(RECORD, timeout=5)
    other = lease_lock(client, namespace, "bob")
    other.get(timeout=5)
    other.update(renewed(RECORD, 7, "bob"), timeout=5)
    with pytest.raises(Conflict):
        lock.update(renewed(RECORD, 8), timeout=5)
    assert lease_of(client, namespace)["spec"]["holderIdentity"] == "bob"


def test_a_renewal_not_seen_is_never_replaced(lock: LeaseLock, client: Client, namespace: str) -> None:
    """The holder is the same, but it lives: its record is another one."""
    lock.create(RECORD, timeout=5)
    other = lease_lock(client, namespace, "bob")
    other.get(timeout=5)
    lock.update(renewed(RECORD, 7), timeout=5)
    with pytest.raises(Conflict):
        other.update(renewed(RECORD, 8, "bob"), timeout=5)
    assert lease_of(client, namespace)["spec"]["holderIdentity"] == "ada"


def test_two_cannot_take_a_record_without_times(lock: LeaseLock, client: Client, namespace: str) -> None:
    """Neither by version nor by the record's content."""
    client.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": namespace},
        }
    )
    other = lease_lock(client, namespace, "bob")
    other.get(timeout=5)
    lock.get(timeout=5)
    lock.update(RECORD, timeout=5)
    with pytest.raises(Conflict):
        other.update(renewed(RECORD, 8, "bob"), timeout=5)
    assert lease_of(client, namespace)["spec"]["holderIdentity"] == "ada"


def test_a_deleted_lease_is_not_updated_into_being(lock: LeaseLock, client: Client, namespace: str) -> None:
    """The API server would create it; the candidate that sees the deletion first decides."""
    lock.create(RECORD, timeout=5)
    client.delete(LEASES, f"{namespace}/{LEASE}")
    with pytest.raises(Conflict):
        lock.update(renewed(RECORD, 7), timeout=5)
    assert lock.get(timeout=5) is None


def test_a_lease_made_again_is_another(lock: LeaseLock, client: Client, namespace: str) -> None:
    """Even with the very same record."""
    lock.create(RECORD, timeout=5)
    client.delete(LEASES, f"{namespace}/{LEASE}")
    lease_lock(client, namespace, "bob").create(RECORD, timeout=5)
    with pytest.raises(Conflict):
        lock.update(renewed(RECORD, 7), timeout=5)


def test_one_creates_it(lock: LeaseLock, client: Client, namespace: str) -> None:
    """The second is delivered."""
    lock.create(RECORD, timeout=5)
    with pytest.raises(Conflict):
        lease_lock(client, namespace, "bob").create(RECORD, timeout=5)


@pytest.mark.conformance("LK-01")
def test_labels_are_set_beside_those_of_others(client: Client, namespace: str) -> None:
    """At creation and at each write; only the lock's own are overwritten."""
    lock = LeaseLock(client, namespace, LEASE, labels={"app": "foos"})
    lock.create(RECORD, timeout=5)
    assert lease_of(client, namespace)["metadata"]["labels"] == {"app": "foos"}
    client.patch(LEASES, f"{namespace}/{LEASE}", {"metadata": {"labels": {"app": "x", "team": "y"}}})
    lock.get(timeout=5)
    lock.update(renewed(RECORD, 7), timeout=5)
    assert lease_of(client, namespace)["metadata"]["labels"] == {"app": "foos", "team": "y"}


@pytest.mark.conformance("LK-01")
def test_events_are_about_the_lease(lock: LeaseLock, client: Client, namespace: str) -> None:
    """So that describing the Lease shows them."""
    lock.create(RECORD, timeout=5)
    lock.record_event("ada became leader")
    assert client.flush_events(60)
    events = [event for event in client.list("v1/Event", namespace) if event["reason"] == "LeaderElection"]
    assert [event["message"] for event in events] == ["ada became leader"]
    assert events[0]["type"] == "Normal"
    assert events[0]["involvedObject"]["kind"] == "Lease"
    assert events[0]["involvedObject"]["name"] == LEASE


def test_the_watch_reports_the_present_record_and_its_changes(
    lock: LeaseLock, client: Client, namespace: str
) -> None:
    """Renewals and releases, but no deletion, and nothing of other Leases."""
    lock.create(RECORD, timeout=5)
    LeaseLock(client, namespace, "another", identity="eve").create(RECORD, timeout=5)
    heard: list[LeaderElectionRecord] = []
    follower = lease_lock(client, namespace, "bob")
    with follower.watch(heard.append):
        eventually(lambda: heard == [RECORD])
        lock.update(renewed(RECORD, 7), timeout=5)
        eventually(lambda: heard == [RECORD, renewed(RECORD, 7)])
        client.delete(LEASES, f"{namespace}/{LEASE}")
        lock.create(renewed(RECORD, 8), timeout=5)
        eventually(lambda: len(heard) == 3)
    assert heard[2] == renewed(RECORD, 8)


def test_identities_differ_by_default() -> None:
    """Two processes of one identity would both lead."""
    client = Client("/nowhere")
    one, two = LeaseLock(client, "default", LEASE), LeaseLock(client, "default", LEASE)
    assert one.identity != two.identity
    assert re.fullmatch(r".+_[0-9a-f]{16}", one.identity)


@pytest.mark.parametrize(("namespace", "name"), [("", LEASE), ("default", "")])
def test_a_lease_needs_a_namespace_and_a_name(namespace: str, name: str) -> None:
    """Otherwise the path would be that of all Leases."""
    with pytest.raises(ConfigError, match="Give both"):
        LeaseLock(Client("/nowhere"), namespace, name)


@pytest.mark.conformance("LK-01")
def test_labels_come_to_a_lease_that_has_none(client: Client, namespace: str) -> None:
    """As one that people made; and a lock without labels leaves those that are there alone."""
    metadata = {"name": LEASE, "namespace": namespace}
    client.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata})
    labelling = LeaseLock(client, namespace, LEASE, labels={"app": "foos"})
    labelling.get(timeout=5)
    labelling.update(RECORD, timeout=5)
    plain = lease_lock(client, namespace, "ada")
    plain.get(timeout=5)
    plain.update(renewed(RECORD, 7), timeout=5)
    assert lease_of(client, namespace)["metadata"]["labels"] == {"app": "foos"}


@pytest.mark.conformance("LK-01")
def test_a_lease_is_read_before_it_is_written(lock: LeaseLock, client: Client, namespace: str) -> None:
    """An update without a read could replace any record; and there is no object for an event."""
    lease_lock(client, namespace, "bob").create(RECORD, timeout=5)
    with pytest.raises(Conflict, match="not read yet"):
        lock.update(RECORD, timeout=5)
    lock.record_event("ada became leader")
    assert client.flush_events(60)
    assert list(client.list("v1/Event", namespace)) == []
    assert lock.describe() == f"{namespace}/{LEASE}"
