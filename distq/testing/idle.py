"""Whether controllers have anything left to do, and their failures: a test waits for these."""

import copy
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from distq.client.client import Client
from distq.controller.cached.event_context import Place
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.shutdown import Shutdown
from distq.controller.stream.stream_source import stream_name
from distq.controller.watches import Every, ResourceWatch, identities
from distq.errors import ReconcileFailed
from distq.informer.objects import key_of
from distq.inspector import Inspector, QueueInfo
from distq.inspector.info import ItemInfo, Listing
from distq.redisio.checkpoints import is_listing
from distq.redisio.connection import Connection
from distq.redisio.records import UNROUTED, StreamRecord
from distq.redisio.stream_store import StreamStore
from distq.wording import counted, duration
from distq.workqueue.interface import Park, Retry, Settlement

SHOWN = 3
"""How many items of each state are named."""

SEARCHED = 10_000
"""Among how many dead items objects are looked for that a function of their watch failed on."""


class PatientShutdown(Shutdown):
    """Leaves behind what a reconcile holds up, and nothing else, however slow the machine is."""

    def is_over(self) -> bool:
        """Return whether all has ended, or the lease is released and the grace period of reconciles over."""
        over = super().is_over()  # cancels what runs once the grace period is over
        if all(part.has_ended() for part in self._parts()):
            return True
        return over and not self.grace_left and all(each.has_ended() for each in self._candidates)


class ObservedManager(Manager):
    """A Manager that keeps the errors of reconciles, and stops once one item failed too often."""

    _shutdown_type = PatientShutdown
    _term_begins_within = math.inf
    failure: ReconcileFailed | None = None
    """What an item failed with once too often."""
    last_error: BaseException | None = None
    """What a reconcile failed with last."""

    def __init__(self, controllers: Sequence[Controller], *, max_failures: float, **options: Any) -> None:
        super().__init__([_without_delays(controller) for controller in controllers], **options)
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
            attempt, failed = request.attempt, f"{queue} {request.key} attempt {request.attempt} failed"
            message = f"{failed}: {outcome.error}. Fix its reconcile function, or allow {more}."
            self.failure = ReconcileFailed(message, queue=queue, key=request.key, attempt=attempt)
            self.failure.__cause__ = outcome.cause
            for dispatcher in self._dispatchers:  # at once: no later attempt changes the state that failed
                dispatcher.shut_down(math.inf)
            self.stop()


def _without_delays(controller: Controller) -> Controller:
    """Return a controller whose watches enqueue at once: no test waits until events are collected."""
    watches = [
        watch if isinstance(watch, Every) else replace(watch, after=0.0) for watch in controller.watches
    ]
    if watches == list(controller.watches):
        return controller
    prompt = copy.copy(controller)
    prompt.watches = tuple(watches)
    return prompt


def failed_object(controller: Controller, inspector: Inspector, since: float) -> ReconcileFailed | None:
    """Return the failure of a watch's function on an object since then; the object's item is dead."""
    for item in inspector.items(controller.queue.name, state="dead", limit=SEARCHED):
        if item.reason in UNROUTED and item.last_error_at is not None and item.last_error_at >= since:
            remedy = 'Fix that function, or let the test go on: on_failure="retry".'
            message = f"{item.queue} {item.key} is dead: {item.last_error}. {remedy}"
            failure = ReconcileFailed(message, queue=item.queue, key=item.key, attempt=0)
            failure.add_note(item.traceback or "")
            return failure
    return None


class Run(NamedTuple):
    """What a run of controllers works on; ``before``: the epochs of earlier leaders."""

    redis: Connection
    client: Client
    before: set[str]


def what_remains(controller: Controller, run: Run) -> Iterator[str]:
    """Yield, for people, why the controller is not idle."""
    inspector = Inspector(run.redis)
    watches = [watch for watch in controller.watches if not isinstance(watch, Every)]
    for watch, identity in zip(watches, identities(watches), strict=True):
        for namespace in watch.namespaces or (None,):
            yield from _behind(watch, Place(controller.queue.name, identity, namespace), run)
    for queue in inspector.queues(controller.queue.name):
        yield from _pending(queue, inspector)


def _pending(queue: QueueInfo, inspector: Inspector) -> Iterator[str]:
    """Yield the items that are held, or wait and are due, and those that wait for another attempt."""
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


def _behind(watch: ResourceWatch, place: Place, run: Run) -> Iterator[str]:
    """Yield what this run's leader has not yet handed over of a watch: the newest version, deletions."""
    selected = {"label_selector": watch.label_selector, "field_selector": watch.field_selector}
    # listed before all else, so that an object that is created meanwhile is not taken for gone
    objects = [each["metadata"] for each in run.client.list(watch.resource, place.namespace, **selected)]
    newest = max((str(each["resourceVersion"]) for each in objects), key=_age, default="")
    # by its name: another watch of the resource, or of another cluster, has streams of its own
    stream = StreamStore(run.redis, place.queue, stream_name(run.client.cluster_id(), place, watch.resource))
    record = stream.load()
    if record is None or not _is_up_to(newest, record, run):
        yield f"{watch.resource} not handed over up to version {newest or 0}"
        return
    gone = {name for name, _ in stream.known()} - {key_of(each) for each in objects}
    yield from (f"deletion of {watch.resource} {each} not handed over" for each in sorted(gone)[:SHOWN])


def _is_up_to(version: str, record: StreamRecord, run: Run) -> bool:
    """Return whether this run's leader leads, and has handed over what there was at the version."""
    if record.epoch in run.before or not record.about.get("synced") or is_listing(record.position):
        return False
    return record.gone_since(run.redis.now()) is None and _age(record.position) >= _age(version)


def _age(version: str) -> tuple[int, str]:
    return len(version), version  # orders versions without taking them for numbers
