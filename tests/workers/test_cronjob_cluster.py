"""The CronJob of kubebuilder's book with an informer and a worker, on an emulated and a real API server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import yaml

from distq import Client, Connection, Controller, Inspector, Manager, Queue, key_of, owned_by
from distq.config import Settings
from distq.errors import Conflict
from distq.testing import FakeClock
from tests.controller.test_manager import Running, managing
from tests.support.api_servers import ApiServer
from tests.support.eventually import eventually
from tests.support.samples import wait_until_served
from tests.workers.cron_jobs import DEFINITION, end, minute_of, new_cron_job
from workers import cronjob
from workers.cronjob import CRON_JOB, JOB

QUEUE = "cronjobs"
PATIENCE = 120.0
ON_TWO_SERVERS = pytest.mark.parametrize(
    ("api_server", "redis_server"), [("emulator", "redis7"), ("real", "valkey9")], indirect=True
)


@pytest.fixture
def client(api_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Give a Client of a cluster that knows CronJobs, which the controller uses, too."""
    client = api_server.client()
    with suppress(Conflict):  # an earlier test's
        client.create(yaml.safe_load(DEFINITION.read_text()))
    wait_until_served(client, CRON_JOB)
    monkeypatch.setattr(cronjob, "client", client)
    return client


@pytest.fixture
def cron_job(client: Client, namespace: str) -> Iterator[dict[str, Any]]:
    """Give a CronJob that runs each minute, and keeps the last Job that succeeded."""
    created = client.create(new_cron_job(namespace, successfulJobsHistoryLimit=1))
    yield created
    client.delete(CRON_JOB, key_of(created))


@pytest.fixture
def clock(cron_job: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Give the controller's clock, which is one second before the CronJob's first run."""
    clock = FakeClock(minute_of(cron_job).timestamp() + 59)
    monkeypatch.setattr(cronjob, "clock", clock.now)
    return clock


class Fleet:
    """An informer and a worker, and what shows where they are."""

    def __init__(self, connection: Connection, key: str) -> None:
        self.members: list[Running] = []
        self._inspector = Inspector(connection)
        self._key = key

    def is_delayed(self) -> bool:
        """Return whether the CronJob's item waits for its time."""
        item = self._inspector.item(QUEUE, self._key)
        return item is not None and item.state == "delayed"

    def reaches(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for the condition; raise what ended a member, or say where item, queue and watches are."""

        def is_met() -> bool:
            for error in [each.error for each in self.members if each.error is not None]:
                raise error
            return condition()

        eventually(is_met, lambda: f"{what}; {self._state()}", timeout=PATIENCE)

    def _state(self) -> str:
        item = self._inspector.item(QUEUE, self._key)
        return f"{item}, {self._inspector.queues(QUEUE)}, {self._inspector.streams(QUEUE)}"


@pytest.fixture
def fleet(
    client: Client,
    cron_job: dict[str, Any],
    clock: FakeClock,
    connection: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Fleet]:
    """Run an informer and a worker over the test's own Redis."""
    namespace = cron_job["metadata"]["namespace"]
    settings = Settings(lease_name="cronjobs", lease_namespace=namespace, grace_period=1)
    fleet = Fleet(connection, key_of(cron_job))
    with ExitStack() as stack:
        for sides in ({"workers": False}, {"informer": False}):
            queue = Queue(QUEUE, connection)
            controller = Controller(queue, cronjob.reconcile, watches=cronjob.controller.watches)
            monkeypatch.setattr(cronjob, "controller", controller)
            manager = Manager([controller], redis=connection, client=client, settings=settings)
            fleet.members.append(stack.enter_context(managing(manager, **sides)))
        yield fleet


@ON_TWO_SERVERS
def test_jobs_come_and_go_by_the_clock(
    client: Client, fleet: Fleet, clock: FakeClock, cron_job: dict[str, Any]
) -> None:
    """The queue brings the CronJob back for its run; its Jobs are noted, end, and make room for others."""
    key = key_of(cron_job)

    def active() -> list[str] | None:
        noted = (client.get(CRON_JOB, key) or {}).get("status", {}).get("active")
        return noted and [job["name"] for job in noted]

    def jobs() -> list[str]:
        there = client.list(JOB, cron_job["metadata"]["namespace"])
        return [job["metadata"]["name"] for job in there if owned_by(job, cron_job)]

    def end_of(name: str) -> None:
        job = client.get(JOB, f"{cron_job['metadata']['namespace']}/{name}")
        assert job is not None
        end(client, job)

    fleet.reaches(lambda: active() == [], "it was looked at")
    fleet.reaches(fleet.is_delayed, "it waits for its run")
    assert jobs() == []
    first, second = (f"{cron_job['metadata']['name']}-{clock.now() + wait:.0f}" for wait in (1, 61))
    clock.step(1)
    fleet.reaches(lambda: active() == [first], "its delay was over")
    assert jobs() == [first]
    end_of(first)
    fleet.reaches(lambda: active() == [], "the end is noted")
    clock.step(60)
    client.patch(CRON_JOB, key, {"metadata": {"annotations": {"looked": "at"}}})  # instead of a minute's wait
    fleet.reaches(lambda: active() == [second], "the next run is started")
    assert sorted(jobs()) == [first, second]
    end_of(second)
    fleet.reaches(lambda: jobs() == [second], "the history keeps one")
