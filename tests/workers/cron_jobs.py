"""The CronJob that the tests of its controller write, and what Kubernetes would do with its Jobs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import yaml

import workers
from distq import Client, key_of

FOLDER = Path(workers.__file__).parent
DEFINITION = FOLDER / "cronjob-crd.yaml"


def new_cron_job(namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """Return the example under a name of its own, run each minute at any time unless given."""
    example: dict[str, Any] = yaml.safe_load((FOLDER / "cronjob.yaml").read_text())
    example["metadata"] = {"name": f"cron-{uuid4().hex[:8]}", "namespace": namespace}
    del example["spec"]["startingDeadlineSeconds"]
    example["spec"] |= spec
    return example


def minute_of(obj: dict[str, Any]) -> datetime:
    """Return the beginning of the minute in which an object was created."""
    return datetime.fromisoformat(obj["metadata"]["creationTimestamp"]).replace(second=0)


def end(client: Client, job: dict[str, Any], how: Literal["Complete", "Failed"] = "Complete") -> None:
    """End a Job as Kubernetes does."""
    before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[how]
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    conditions = [
        {"type": each, "status": "True", "lastProbeTime": now, "lastTransitionTime": now}
        for each in (before, how)
    ]
    completed = {"completionTime": now} if how == "Complete" else {}
    status = {"startTime": now, **completed, "conditions": conditions}
    client.patch("batch/v1/Job", key_of(job), {"status": status}, status=True)
