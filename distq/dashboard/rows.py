"""The Inspector's records in the words that rq-dashboard's scripts expect."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from distq.dashboard.item_id import ItemId
from distq.dashboard.paging import RegistryPage
from distq.dashboard.registries import LISTED_STATES, REGISTRIES, count
from distq.inspector import ItemInfo, QueueInfo, Timestamp, WorkerInfo
from distq.wording import counted


def queue_row(queue: QueueInfo) -> dict[str, Any]:
    """Describe a queue with its counts and the links to its lists; only the links name it to scripts."""
    sign = "paused" if queue.paused else "cannot be read" if queue.broken is not None else ""
    row: dict[str, Any] = {"name": f"{queue.name} ({sign})" if sign else queue.name}
    for registry in REGISTRIES:
        counter = "count" if registry == "queued" else f"{registry}_job_registry_count"
        row[counter] = count(queue, registry)
        row[f"{registry}_url"] = RegistryPage(queue.name, registry).url()
    return row


def item_row(item: ItemInfo, registry: str) -> dict[str, Any]:
    """Describe an item in a list; its age is the time until it is due where it waits for that."""
    state = REGISTRIES[registry] or item.state
    moment = item.due if state == "delayed" else item.since
    return {
        "id": str(ItemId(item.queue, state, item.key)),
        "created_at": _time(moment or item.since or Timestamp(0.0)),
        "started_at": None,
        "ended_at": _time(item.last_error_at or (item.since if item.state == "dead" else None)),
        "exc_info": item.last_error or item.reason,
        "description": " · ".join([item.key, *_facts(item)]),
    }


def item_details(item: ItemInfo) -> dict[str, Any]:
    """Describe an item on its own page, in the state in which it is now."""
    registry = LISTED_STATES[item.state]
    return {
        **item_row(item, registry),
        "enqueued_at": _time(item.since) if item.state == "ready" else None,
        "started_at": _time(item.since) if item.state == "processing" else None,
        "origin": item.queue,
        "status": registry,
        "exc_info": item.traceback or item.last_error or item.reason,
        "description": item.key,
        "metadata": " · ".join([item.state, *_facts(item)]),
    }


def worker_row(worker: WorkerInfo) -> dict[str, Any]:
    """Describe an open handle; its current job is the list of what is held in its queue."""
    held = counted(worker.processing, "item")
    return {
        "name": worker.name,
        "host": worker.host,
        "pid": worker.pid,
        "queues": [worker.queue],
        "state": "busy" if worker.processing else "idle",
        "current_job": "idle"
        if not worker.processing
        else {
            "job_id": str(ItemId(worker.queue, "processing", "")),
            "description": held,
            "call_string": held,
            "created_at": _time(worker.heartbeat or Timestamp(0.0)),
        },
        "last_heartbeat": _time(worker.heartbeat),
        "birth_date": _time(worker.since),
        "successful_job_count": worker.done,
        "failed_job_count": worker.failed,
        "version": worker.version,
    }


def _facts(item: ItemInfo) -> Iterator[str]:
    if item.reason:
        yield "parked by hand" if item.reason == "parked" else f"parked: {item.reason}"
    if item.priority:
        yield f"priority {item.priority}"
    if item.failures:
        yield counted(item.failures, "failure")
    if item.worker:
        yield f"held by {item.worker}"
    if item.dirty:
        yield "added again meanwhile"


def _time(moment: Timestamp | None) -> str | None:
    """Write a time with ``+00:00``: the pages' scripts misread ``Z`` away from UTC."""
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat()
