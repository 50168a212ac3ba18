"""The CronJob of kubebuilder's book: Jobs by the clock, with a deadline, a policy and a history.

    kubectl apply -f workers/cronjob-crd.yaml
    distq informer workers.cronjob
    distq worker workers.cronjob --concurrency 8
    kubectl apply -f workers/cronjob.yaml

Source: kubebuilder's cronjob-tutorial; ``spec.timeZone`` and ``@every`` are as in Kubernetes' own CronJob.
Different: of any number of missed runs the latest is started; a run is started once, also where its Job is
gone already; a wrong schedule parks the CronJob and is an event about it; the condition Degraded is False
again once its cause is gone. The defaults of the book's webhook are in the CRD.
"""

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any, Literal
from zoneinfo import ZoneInfo

from distq import (
    Client,
    Controller,
    For,
    Owns,
    Request,
    Result,
    TerminalError,
    get_condition,
    key_of,
    reference,
    set_condition,
    set_controller_reference,
)
from workers.cron_schedule import Schedule, parse

CRON_JOB = "batch.tutorial.kubebuilder.io/v1/CronJob"
JOB = "batch/v1/Job"
SCHEDULED_AT = "batch.tutorial.kubebuilder.io/scheduled-at"

Object = dict[str, Any]

client = Client()
clock = time.time
"""Returns seconds since the epoch; tests set it."""


class UnparseableSchedule(TerminalError):
    """The schedule is wrong, or its day never comes; this name is the event's reason, as in Kubernetes."""


class UnknownTimeZone(TerminalError):
    """The system has no such time zone, nor has the package tzdata; the name is again the event's reason."""


class MissedSchedule(Exception):
    """The last run was not started within its deadline."""


def reconcile(request: Request) -> Result | None:
    """Note what runs, delete what is old, start what is due, and come back for the next run."""
    cron_job = controller.lister(CRON_JOB).get(request.key)
    if cron_job is None or cron_job["metadata"].get("deletionTimestamp"):
        return None  # its Jobs go with it
    jobs = controller.lister(JOB).by_index("owner", cron_job["metadata"]["uid"])
    now = datetime.fromtimestamp(clock(), UTC)
    due, wrong = None, None
    try:
        schedule = schedule_of(cron_job)
        due = due_run(cron_job, schedule.last_until(now), now)
    except (TerminalError, MissedSchedule) as error:
        wrong = error
    cron_job = report(cron_job, jobs, wrong)
    delete_old(cron_job, jobs)
    if cron_job["spec"]["suspend"]:
        return None
    if isinstance(wrong, TerminalError):
        raise wrong
    if due:
        start(cron_job, due, jobs)
    return Result(requeue_after=(schedule.next_after(now) - now).total_seconds())


def report(cron_job: Object, jobs: Sequence[Object], wrong: Exception | None) -> Object:
    """Say in the status which Jobs have not ended, and how it goes; return the CronJob as stored."""
    active = [reference(job) for job in sorted(jobs, key=key_of) if ending(job) is None]
    failed = sum(ending(job) == "Failed" for job in jobs)
    say = partial(set_condition, cron_job)
    running, message = "JobsActive" if active else "NoJobsActive", f"active Jobs: {len(active)}"
    say("Progressing", bool(active), reason=running, message=message)
    if cron_job["spec"]["suspend"]:
        say("Available", False, reason="Suspended", message="spec.suspend is true")
    elif isinstance(wrong, TerminalError):
        say("Available", False, reason=type(wrong).__name__, message=str(wrong))
    else:
        say("Available", True, reason=running, message=message)
    if wrong:
        say("Degraded", True, reason=type(wrong).__name__, message=str(wrong))
    elif failed:
        say("Degraded", True, reason="JobsFailed", message=f"failed Jobs: {failed}")
    else:
        say("Degraded", False, reason="AsExpected")
    return client.patch_status(cron_job, {**cron_job["status"], "active": active})


def delete_old(cron_job: Object, jobs: Sequence[Object]) -> None:
    """Delete the oldest of the Jobs that have ended, down to the history limits."""
    for how, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        ended = sorted((job for job in jobs if ending(job) == how), key=scheduled_at)
        for job in ended[: max(0, len(ended) - cron_job["spec"][limit])]:
            delete(cron_job, job)


def due_run(cron_job: Object, run: datetime, now: datetime) -> datetime | None:
    """Return the run unless it was started, or is from before the CronJob; raise MissedSchedule."""
    last = cron_job.get("status", {}).get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]
    if run <= datetime.fromisoformat(last):
        return None
    deadline = cron_job["spec"].get("startingDeadlineSeconds", math.inf)
    if (now - run).total_seconds() >= deadline:
        raise MissedSchedule(f"the run of {run:%Y-%m-%dT%H:%M:%SZ} was not started within {deadline} s")
    return run


def start(cron_job: Object, run: datetime, jobs: Sequence[Object]) -> None:
    """Create the Job of a run unless the concurrency policy forbids it, then note the run in the status.

    The Job's name says which run it is: where it is there already, a crash came between the two.
    """
    job = new_job(cron_job, run)
    if key_of(job) not in map(key_of, jobs):
        active = [job for job in jobs if ending(job) is None]
        policy = cron_job["spec"]["concurrencyPolicy"]
        if policy == "Forbid" and active:
            return  # the end of a Job is an event, and the run may start then
        if policy == "Replace":
            for replaced in active:
                delete(cron_job, replaced)
        client.create(job)
        client.event(cron_job, "SuccessfulCreate", f"Created job {job['metadata']['name']}")
    client.patch_status(cron_job, {"lastScheduleTime": scheduled_at(job)})


def new_job(cron_job: Object, run: datetime) -> Object:
    """Return the Job of a run, made by the template."""
    template = cron_job["spec"]["jobTemplate"]
    about = template.get("metadata", {})
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{cron_job['metadata']['name']}-{run.timestamp():.0f}",
            "namespace": cron_job["metadata"]["namespace"],
            "labels": about.get("labels", {}),
            "annotations": about.get("annotations", {}) | {SCHEDULED_AT: f"{run:%Y-%m-%dT%H:%M:%SZ}"},
        },
        "spec": template["spec"],
    }
    set_controller_reference(cron_job, job)
    return job


def delete(cron_job: Object, job: Object) -> None:
    """Delete a Job and its Pods, and say so."""
    if client.delete(JOB, key_of(job)):
        client.event(cron_job, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")


def schedule_of(cron_job: Object) -> Schedule:
    """Return the schedule; with a wrong one the item is dead until the CronJob changes."""
    began = datetime.fromisoformat(cron_job["metadata"]["creationTimestamp"])
    try:
        return parse(cron_job["spec"]["schedule"], zone_of(cron_job), start=began)
    except ValueError as error:
        raise UnparseableSchedule(str(error)) from None


def zone_of(cron_job: Object) -> tzinfo:
    """Return the time zone of the schedule, UTC unless given."""
    name = cron_job["spec"].get("timeZone")
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # what it raises for names such as "Europe", a folder
        raise UnknownTimeZone(f'there is no time zone "{name}"') from None


def ending(job: Object) -> Literal["Complete", "Failed"] | None:
    """Return how a Job ended, None while it is active."""
    for how in ("Complete", "Failed"):
        if (get_condition(job, how) or {}).get("status") == "True":
            return how
    return None


def scheduled_at(job: Object) -> str:
    """Return for when a Job was scheduled, in a form that sorts by time."""
    return str(job["metadata"].get("annotations", {}).get(SCHEDULED_AT, ""))


def by_owner(job: Object) -> list[str]:
    """Return the uid of the object that controls a Job."""
    owners = job["metadata"].get("ownerReferences", [])
    return [owner["uid"] for owner in owners if owner.get("controller")]


controller = Controller(
    "cronjobs",
    reconcile,
    watches=[For(CRON_JOB, cached=True), Owns(JOB, cached=True, indexers={"owner": by_owner})],
    failure_events=True,
)
