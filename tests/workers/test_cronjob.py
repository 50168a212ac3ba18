"""The CronJob of kubebuilder's book starts Jobs by its schedule: each test says what time it is."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from distq import Client, Inspector, Queue, Request, Result, key_of, owned_by
from distq.errors import ApiError
from distq.testing import FakeClock, Sandbox
from tests.workers.cron_jobs import DEFINITION, end, minute_of, new_cron_job
from workers import cronjob
from workers.cronjob import CRON_JOB, JOB, SCHEDULED_AT, controller, reconcile

MINUTE = 60


class Play:
    """A new CronJob in a sandbox, whose clock is at the minute in which it was created."""

    def __init__(self, sandbox: Sandbox, clock: FakeClock, **spec: Any) -> None:
        self.sandbox = sandbox
        (self.cron_job,) = sandbox.apply(new_cron_job(**spec))
        self.key = key_of(self.cron_job)
        self.created = minute_of(self.cron_job)
        self.clock = clock
        clock.step_wall(self.created.timestamp() - clock.now())

    def run(self, minutes: float = 0, **options: Any) -> None:
        """Let time pass, and the controller do what is to be done then.

        A change comes to the controller by its event, so let none be on its way when time passes.
        """
        if minutes:
            self.clock.step(minutes * MINUTE)
            Queue("cronjobs").add(self.key)  # as if it were back after its delay
        self.sandbox.run_until_idle(controller, **options)

    def minutes(self) -> list[int]:
        """Return for which minutes since the creation there are Jobs."""
        runs = [int(job["metadata"]["name"].rpartition("-")[2]) for job in self.jobs()]
        return [int(run - self.created.timestamp()) // MINUTE for run in runs]

    def jobs(self) -> list[dict[str, Any]]:
        """Return its Jobs, the oldest first."""
        jobs = [job for job in self.sandbox.client.list(JOB, "default") if owned_by(job, self.cron_job)]
        return sorted(jobs, key=key_of)

    def status(self) -> dict[str, Any]:
        """Return what the controller says."""
        return dict((self.sandbox.client.get(CRON_JOB, self.key) or {})["status"])

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Return by type the status and the reason of each condition."""
        return {each["type"]: (each["status"], each["reason"]) for each in self.status()["conditions"]}

    def active(self) -> list[str]:
        """Return the names of the Jobs that its status says are active."""
        return [job["name"] for job in self.status()["active"]]

    def patch(self, **spec: Any) -> None:
        """Change the CronJob."""
        self.sandbox.client.patch(CRON_JOB, self.key, {"spec": spec})

    def events(self) -> list[str]:
        """Return the reasons of the events about it."""
        about = self.cron_job["metadata"]["uid"]
        events = self.sandbox.client.list("v1/Event", "default")
        return sorted(event["reason"] for event in events if event["involvedObject"]["uid"] == about)


@pytest.fixture
def play(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Play]]:
    """Give what creates a CronJob by its spec; it is suspended after the test, whose sandbox others share."""
    sandbox.apply(DEFINITION)
    clock = FakeClock()
    monkeypatch.setattr(cronjob, "clock", clock.now)
    plays: list[Play] = []

    def begin(**spec: Any) -> Play:
        plays.append(Play(sandbox, clock, **spec))
        return plays[-1]

    yield begin
    for each in plays:
        if sandbox.client.get(CRON_JOB, each.key):
            each.patch(suspend=True)


def test_a_run_is_started_at_its_time_and_once(play: Callable[..., Play]) -> None:
    """There is no Job before it, one after it, and still one when it is looked at again."""
    each_minute = play()
    each_minute.run()
    assert each_minute.minutes() == []
    each_minute.run(minutes=1)
    each_minute.run(minutes=0.5)
    assert each_minute.minutes() == [1]
    (job,) = each_minute.jobs()
    assert each_minute.active() == [job["metadata"]["name"]]
    assert each_minute.status()["lastScheduleTime"] == job["metadata"]["annotations"][SCHEDULED_AT]
    assert each_minute.events() == ["SuccessfulCreate"]


def test_it_comes_back_for_the_next_run(play: Callable[..., Play]) -> None:
    """A reconcile, called as a function, says how long its item waits."""
    quarterly = play(schedule="*/15 * * * *")
    quarterly.run()
    minutes = 15 - quarterly.created.minute % 15
    quarterly.clock.step(10.5)
    assert reconcile(Request(quarterly.key)) == Result(requeue_after=minutes * MINUTE - 10.5)


def test_a_job_is_made_by_the_template(play: Callable[..., Play]) -> None:
    """It has the template's labels, annotations and spec, and the CronJob as its controller."""
    template = {
        "metadata": {"labels": {"team": "red"}, "annotations": {"cost": "low"}},
        "spec": new_cron_job()["spec"]["jobTemplate"]["spec"],
    }
    labelled = play(jobTemplate=template)
    labelled.run(minutes=1)
    (job,) = labelled.jobs()
    assert job["metadata"]["labels"]["team"] == "red"
    assert job["metadata"]["annotations"]["cost"] == "low"
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox"


def test_of_missed_runs_the_latest_is_started(play: Callable[..., Play]) -> None:
    """After an outage of a week there is one Job, not ten thousand."""
    missed = play()
    missed.run(minutes=10_000)
    assert missed.minutes() == [10_000]


def test_a_run_past_its_deadline_is_not_started(play: Callable[..., Play]) -> None:
    """A run may be late by less than startingDeadlineSeconds."""
    hour = play(schedule="0 * * * *", startingDeadlineSeconds=120)
    to_the_hour = 60 - hour.created.minute
    hour.run(minutes=to_the_hour + 2)
    assert hour.minutes() == []
    hour.run(minutes=60 - 0.5)
    assert hour.minutes() == [to_the_hour + 60]


@pytest.mark.parametrize(
    ("policy", "started", "after_its_end"),
    [("Allow", [1, 2], [1, 2]), ("Forbid", [1], [1, 2]), ("Replace", [2], [2])],
)
def test_a_run_that_meets_an_active_job_follows_the_policy(
    play: Callable[..., Play], policy: str, started: list[int], after_its_end: list[int]
) -> None:
    """Both run, or the new one waits for the end of the old one, or takes its place."""
    meeting = play(concurrencyPolicy=policy)
    meeting.run(minutes=1)
    meeting.run(minutes=1)
    assert meeting.minutes() == started
    assert meeting.active() == [job["metadata"]["name"] for job in meeting.jobs()]
    end(meeting.sandbox.client, meeting.jobs()[0])
    meeting.run()
    assert meeting.minutes() == after_its_end


def test_a_suspended_cron_job_starts_nothing(play: Callable[..., Play]) -> None:
    """What it missed it starts once it goes on: the latest run."""
    suspended = play(suspend=True)
    suspended.run(minutes=3)
    assert suspended.minutes() == []
    suspended.patch(suspend=False)
    suspended.run()
    assert suspended.minutes() == [3]


def test_of_ended_jobs_the_latest_stay(play: Callable[..., Play]) -> None:
    """The history limits count successes and failures apart, and let active Jobs be."""
    history = play(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1)
    for how in ("Complete", "Failed", "Complete", "Failed", "Complete"):
        history.run(minutes=1)
        end(history.sandbox.client, history.jobs()[-1], how)
    history.run(minutes=1)
    assert history.minutes() == [3, 4, 5, 6]
    assert len(history.active()) == 1


def test_a_run_whose_job_is_gone_is_not_started_again(play: Callable[..., Play]) -> None:
    """The status remembers it, where no history is kept."""
    forgetful = play(successfulJobsHistoryLimit=0)
    forgetful.run(minutes=1)
    end(forgetful.sandbox.client, forgetful.jobs()[0])
    forgetful.run()
    forgetful.run(minutes=0.5)
    assert forgetful.minutes() == []


def test_a_crash_between_job_and_status_starts_no_second_job(
    play: Callable[..., Play], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt finds the run's Job by its name and notes it, instead of replacing it."""
    crashing = play(concurrencyPolicy="Replace")
    crashing.run()
    patch_status = Client.patch_status
    crashes = iter(range(1))

    def crash_once(client: Client, obj: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
        if key_of(obj) == crashing.key and "lastScheduleTime" in status and next(crashes, None) is not None:
            raise ApiError("the process died")
        return patch_status(client, obj, status)

    monkeypatch.setattr(Client, "patch_status", crash_once)
    crashing.run(minutes=1, on_failure="retry", max_failures=1)
    assert crashing.minutes() == [1]
    (job,) = crashing.jobs()
    assert crashing.status()["lastScheduleTime"] == job["metadata"]["annotations"][SCHEDULED_AT]
    assert "SuccessfulDelete" not in crashing.events()


def test_a_wrong_schedule_waits_for_a_better_one(play: Callable[..., Play]) -> None:
    """It is dead with an event that says why, and its Jobs are looked after meanwhile."""
    mistaken = play()
    mistaken.run(minutes=1)
    end(mistaken.sandbox.client, mistaken.jobs()[0])
    mistaken.patch(schedule="* * * *")
    mistaken.run(on_failure="retry")
    mistaken.run(minutes=1, on_failure="retry")
    assert mistaken.minutes() == [1]
    assert mistaken.active() == []
    item = Inspector(mistaken.sandbox.redis).item("cronjobs", mistaken.key)
    assert item is not None
    assert item.state == "dead"
    assert "UnparseableSchedule" in mistaken.events()
    assert mistaken.conditions()["Available"] == ("False", "UnparseableSchedule")
    mistaken.patch(schedule="* * * * *")
    mistaken.run()
    assert mistaken.minutes() == [1, 2]


def test_conditions_say_how_it_goes(play: Callable[..., Play]) -> None:
    """Whether it starts Jobs, whether some run, and what went wrong, for as long as it does."""
    some = play(failedJobsHistoryLimit=1)
    some.run()
    fine = {"Available": ("True", "NoJobsActive"), "Progressing": ("False", "NoJobsActive")}
    assert some.conditions() == {**fine, "Degraded": ("False", "AsExpected")}
    some.run(minutes=1)
    active = {"Available": ("True", "JobsActive"), "Progressing": ("True", "JobsActive")}
    assert some.conditions() == {**active, "Degraded": ("False", "AsExpected")}
    end(some.sandbox.client, some.jobs()[0], "Failed")
    some.run()
    assert some.conditions() == {**fine, "Degraded": ("True", "JobsFailed")}
    some.patch(failedJobsHistoryLimit=0)
    some.run()
    assert some.conditions()["Degraded"] == ("False", "AsExpected")
    some.patch(suspend=True)
    some.run()
    assert some.conditions()["Available"] == ("False", "Suspended")


def test_a_condition_says_that_a_run_was_missed(play: Callable[..., Play]) -> None:
    """Until the next run is started."""
    hour = play(schedule="0 * * * *", startingDeadlineSeconds=120)
    hour.run(minutes=60 - hour.created.minute + 2)
    assert hour.conditions()["Degraded"] == ("True", "MissedSchedule")
    hour.run(minutes=59)
    assert hour.conditions()["Degraded"] == ("False", "AsExpected")


def test_a_schedule_is_in_the_time_zone_of_the_spec(play: Callable[..., Play]) -> None:
    """At noon in Apia, not in UTC; a Job's name and the status are in UTC."""
    noon = play(schedule="0 12 * * *", timeZone="Pacific/Apia")
    run = (noon.created + timedelta(days=1)).astimezone(ZoneInfo("Pacific/Apia")).replace(hour=12, minute=0)
    noon.run(minutes=(run - noon.created).total_seconds() // MINUTE)
    (job,) = noon.jobs()
    assert job["metadata"]["name"].endswith(f"-{run.timestamp():.0f}")
    assert noon.status()["lastScheduleTime"] == f"{run.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "Europe", "../etc", ""])
def test_an_unknown_time_zone_waits_for_a_better_one(play: Callable[..., Play], zone: str) -> None:
    """It is dead with an event and a condition that say why."""
    lost = play(timeZone=zone)
    lost.run(minutes=1, on_failure="retry")
    assert lost.minutes() == []
    assert "UnknownTimeZone" in lost.events()
    assert lost.conditions()["Available"] == ("False", "UnknownTimeZone")
    assert lost.conditions()["Degraded"] == ("True", "UnknownTimeZone")
    lost.patch(timeZone="Etc/UTC")
    lost.run()
    assert lost.minutes() == [1]


def test_a_period_counts_from_the_creation(play: Callable[..., Play]) -> None:
    """A Job is started in each period; of missed ones the latest, and the rhythm stays."""
    each = play(schedule="@every 90s")
    began = datetime.fromisoformat(each.cron_job["metadata"]["creationTimestamp"])
    each.run(minutes=4)  # from the beginning of the minute in which it was created
    each.run(minutes=10)
    runs = [int(job["metadata"]["name"].rpartition("-")[2]) - began.timestamp() for job in each.jobs()]
    assert all(run % 90 == 0 for run in runs)
    assert len(runs) == 2


def test_a_deleted_cron_job_is_left_alone(play: Callable[..., Play]) -> None:
    """Its Jobs go with it, and nothing of it stays in the queue.

    The Jobs' events may come before its own: then a write finds it gone, and the retry does nothing.
    """
    deleted = play()
    deleted.run(minutes=1)
    deleted.sandbox.client.delete(CRON_JOB, deleted.key)
    deleted.run(minutes=1, on_failure="retry")
    assert deleted.minutes() == []
    assert Inspector(deleted.sandbox.redis).item("cronjobs", deleted.key) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("spec.concurrencyPolicy", "Sometimes"),
        ("spec.startingDeadlineSeconds", -1),
        ("spec.schedule", None),
        ("metadata.name", "a" * 53),
    ],
)
def test_the_definition_refuses_fields_that_make_no_sense(
    play: Callable[..., Play], sandbox: Sandbox, field: str, value: object
) -> None:
    """The API server says which field is wrong, before the controller sees it."""
    cron_job = play().cron_job
    part, _, name = field.partition(".")
    wrong = {**new_cron_job(), part: {**cron_job[part], name: value}}
    wrong["metadata"] = {"namespace": "default", "name": wrong["metadata"]["name"]}
    with pytest.raises(ApiError, match=field):
        sandbox.client.create(wrong)
