"""The Inspector's records as rq-dashboard's JSON: its names for states, its fields, its pages."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from flask import url_for

from distq.dashboard.item_id import ItemId
from distq.inspector import ItemInfo, Listing, QueueInfo, Timestamp, WorkerInfo
from distq.wording import counted

REGISTRIES: dict[str, Listing | None] = {
    "queued": "ready",
    "deferred": "dirty",
    "scheduled": "delayed",
    "started": "processing",
    "finished": None,  # a settled item is forgotten
    "failed": "dead",
    "canceled": None,  # a deleted one too
}
"""RQ's registries, and the state of distq that each one lists."""

MAX_PER_PAGE = 200
WINDOW = 10
"""Numbers of pages that rq-dashboard links to at a time."""

_REGISTRY_OF = {state: registry for registry, state in REGISTRIES.items() if state}


@dataclass(frozen=True, slots=True)
class RegistryPage:
    """Page ``number``, from 1, of a registry; ``order`` is asc or dsc."""

    queue: str
    registry: str
    per_page: int = 25
    order: str = "asc"
    number: int = 1

    @property
    def state(self) -> Listing | None:
        """Return the state whose items it lists; None for a registry that is always empty."""
        return REGISTRIES[self.registry]

    def url(self) -> str:
        """Return its URL, which redirects to the queue's page."""
        return url_for(
            "rq_dashboard.jobs_overview",
            instance_number=0,
            queue_name=self.queue,
            registry_name=self.registry,
            per_page=self.per_page,
            order=self.order,
            page=self.number,
        )

    def rows(self, total: int) -> tuple[int, int]:
        """Return offset and limit of its rows, by rank; with dsc they are shown backwards."""
        start = (self.number - 1) * self.per_page
        end = min(start + self.per_page, total)
        return (start if self.order == "asc" else total - end), max(0, end - start)

    def links(self, total: int) -> dict[str, Any]:
        """Return the links to other pages of the registry, which has ``total`` items."""
        pages = -(-total // self.per_page)
        last = max(pages, 1)
        first_in_window = max(1, min(self.number - WINDOW // 2, last - WINDOW + 1))
        window = range(first_in_window, min(first_in_window + WINDOW - 1, last) + 1)
        links: dict[str, Any] = {
            "current_page": self.number,
            "num_pages": pages,
            "pages_in_window": [{"number": number, **self._link(number)} for number in window],
            "first_page": self._link(1),
            "last_page": self._link(last),
        }
        if self.number > 1:
            links["prev_page"] = self._link(min(self.number - 1, last))
        if self.number < last:
            links["next_page"] = self._link(self.number + 1)
        return links

    def _link(self, number: int) -> dict[str, str]:
        return {"url": replace(self, number=number).url()}


def count(queue: QueueInfo, registry: str) -> int:
    """Return how many items a registry lists."""
    state = REGISTRIES[registry]
    return int(getattr(queue, state)) if state else 0


def queue_row(queue: QueueInfo) -> dict[str, Any]:
    """Describe a queue with its counts, and the links by which scripts know it."""
    sign = "paused" if queue.paused else "cannot be read" if queue.broken is not None else ""
    row: dict[str, Any] = {"name": f"{queue.name} ({sign})" if sign else queue.name}
    for registry in REGISTRIES:
        counter = "count" if registry == "queued" else f"{registry}_job_registry_count"
        row[counter] = count(queue, registry)
        row[f"{registry}_url"] = RegistryPage(queue.name, registry).url()
    return row


def item_row(item: ItemInfo, state: Listing) -> dict[str, Any]:
    """Describe an item in a list; ``created_at`` of a delayed one is when it is due."""
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
    """Describe an item by itself, in the state in which it is now."""
    return {
        **item_row(item, item.state),
        "enqueued_at": _time(item.since) if item.state == "ready" else None,
        "started_at": _time(item.since) if item.state == "processing" else None,
        "origin": item.queue,
        "status": _REGISTRY_OF[item.state],
        "exc_info": item.traceback or item.last_error or item.reason,
        "description": item.key,
        "metadata": " · ".join([item.state, *_facts(item)]),
    }


def worker_row(worker: WorkerInfo) -> dict[str, Any]:
    """Describe an open handle; its current job is the list of the items that its queue's workers hold."""
    held = counted(worker.processing, "item")
    job = {
        "job_id": str(ItemId(worker.queue, "processing", "")),
        "description": held,
        "call_string": held,
        "created_at": _time(worker.heartbeat or Timestamp(0.0)),
    }
    return {
        "name": worker.name,
        "host": worker.host,
        "pid": worker.pid,
        "queues": [worker.queue],
        "state": "busy" if worker.processing else "idle",
        "current_job": job if worker.processing else "idle",
        "last_heartbeat": _time(worker.heartbeat),
        "birth_date": _time(worker.since),
        "successful_job_count": worker.done,
        "failed_job_count": worker.failed,
        "version": worker.version,
    }


def _facts(item: ItemInfo) -> Iterator[str]:
    if item.reason:
        yield "dead: parked by hand" if item.reason == "parked" else f"dead: {item.reason}"
    if item.priority:
        yield f"priority {item.priority}"
    if item.failures:
        yield counted(item.failures, "failure")
    if item.worker:
        yield f"held by {item.worker}"
    if item.dirty:
        yield "added again meanwhile"


def _time(moment: Timestamp | None) -> str | None:
    """Write a time with ``+00:00``: rq-dashboard's scripts misread ``Z`` away from UTC."""
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat()
