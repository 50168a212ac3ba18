"""Whether controllers have anything left to do, and what failed: what a test waits for."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from distq.client.client import Client
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.watches import Every, ResourceWatch
from distq.errors import ReconcileFailed
from distq.inspector import Inspector, QueueInfo
from distq.inspector.info import ItemInfo, Listing
from distq.redisio.records import UNROUTED
from distq.wording import counted, duration
from distq.workqueue.interface import Park, Retry, Settlement

SHOWN = 3
"""How many items of each state are named."""

SEARCHED = 10_000
"""Among how many dead items objects are looked for that a function of their watch failed on."""


class ObservedManager(Manager):
    """A Manager that keeps the errors of reconciles, and stops once one item failed too often."""

    failure: ReconcileFailed | None = None
    """What an item failed with once too often."""
    last_error: BaseException | None = None
    """What a reconcile failed with last."""

    def __init__(self, controllers: Sequence[Controller], *, max_failures: float, **options: Any) -> None:
        super().__init__(controllers, **options)
        self._max_failures = max_failures
        self.may_not_fail = max_failures == 0
        self._failures: Counter[tuple[str, str]] = Counter()

    def _settled(self, queue: str, settlement: Settlement) -> None:
        request, outcome = settlement.request, settlement.outcome
        if not isinstance(outcome, Retry | Park):
            return
        self.last_error = outcome.cause
        self._failures[queue, request.key] += 1
        if self._failures[queue, request.key] > self._max_failures and self.failure is None:
            more = "more: max_failures" if self._max_failures else 'failures: on_failure="retry"'
            self.failure = ReconcileFailed(
                f"{queue} {request.key} attempt {request.attempt} failed: {outcome.error}. "
                f"Mend its reconcile function, or allow {more}.",
                queue=queue,
                key=request.key,
                attempt=request.attempt,
            )
            self.failure.__cause__ = outcome.cause
            self.stop()


def failed_object(controller: Controller, inspector: Inspector, since: float) -> ReconcileFailed | None:
    """Return that a function of a watch failed on an object since then, which is parked."""
    for item in inspector.items(controller.queue.name, state="dead", limit=SEARCHED):
        if item.reason in UNROUTED and item.last_error_at is not None and item.last_error_at >= since:
            failure = ReconcileFailed(
                f"{item.queue} {item.key} is parked: {item.last_error}. "
                'Mend that function, or let the test go on: on_failure="retry".',
                queue=item.queue,
                key=item.key,
                attempt=0,
            )
            failure.add_note(item.traceback or "")
            return failure
    return None


def what_remains(
    controller: Controller, inspector: Inspector, client: Client, before: set[str]
) -> Iterator[str]:
    """Yield, for people, why the controller is not idle; ``before``: epochs of earlier leaders."""
    yield from _streams_behind(controller, inspector, client, before)
    for queue in inspector.queues(controller.queue.name):
        yield from _pending(queue, inspector)


def _pending(queue: QueueInfo, inspector: Inspector) -> Iterator[str]:
    """Yield what is held, or waits and is due, and what waits to be tried again."""
    now, due = inspector.now(), max(0, queue.depth - queue.ready - queue.dirty)
    if queue.depth and queue.paused:
        yield f"{queue.name} is paused"
    numbers: dict[Listing, int] = {"processing": queue.processing, "ready": queue.ready, "delayed": due}
    for state, number in numbers.items():
        items = inspector.items(queue.name, state=state, limit=min(number, SHOWN)) if number else []
        yield from (_describe(item, now) for item in items)
        if number > len(items):
            yield f"{number - len(items)} more of {queue.name} {state}"
    for item in inspector.items(queue.name, state="delayed", failing=True, limit=SHOWN):
        yield _describe(item, now)


def _describe(item: ItemInfo, now: float) -> str:
    parts = [f"{item.key} of {item.queue} is {item.state}"]
    if item.since is not None and item.state != "delayed":
        parts.append(f"for {duration(now - item.since)}")
    if item.due is not None:
        parts.append(f"and due in {duration(item.due - now)}" if item.due > now else "and due")
    elif item.dirty:
        parts.append("and was added again")
    if item.failures:
        parts.append(f"after it failed {counted(item.failures, 'time')}: {item.last_error}")
    return " ".join(parts)


def _streams_behind(
    controller: Controller, inspector: Inspector, client: Client, before: set[str]
) -> Iterator[str]:
    """Yield the watches of which this run's leader has not yet committed the newest listed version."""
    streams = inspector.streams(controller.queue.name)
    for watch in controller.watches:
        if isinstance(watch, Every):
            continue
        for namespace in watch.namespaces or (None,):
            newest = _newest_version(client, watch, namespace)
            if not any(
                stream.synced and stream.epoch not in before and _age(stream.version or "") >= _age(newest)
                for stream in streams
                if (stream.resource, stream.namespace) == (watch.resource, namespace)
            ):
                yield f"{watch.resource} not handed over up to version {newest or 0}"


def _newest_version(client: Client, watch: ResourceWatch, namespace: str | None) -> str:
    objects = client.list(
        watch.resource, namespace, label_selector=watch.label_selector, field_selector=watch.field_selector
    )
    return max((str(obj["metadata"]["resourceVersion"]) for obj in objects), key=_age, default="")


def _age(version: str) -> tuple[int, str]:
    """Order versions without taking them for numbers."""
    return len(version), version
