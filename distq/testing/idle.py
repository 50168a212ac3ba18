"""Whether controllers have anything left to do: what a test waits for."""

from collections.abc import Iterator

from distq.client.client import Client
from distq.controller.controller import Controller
from distq.controller.watches import Every, ResourceWatch
from distq.inspector import Inspector, QueueInfo
from distq.wording import counted


def what_remains(
    controller: Controller, inspector: Inspector, client: Client, before: set[str]
) -> Iterator[str]:
    """Yield, for people, why the controller is not idle; ``before``: epochs of earlier leaders."""
    yield from _streams_behind(controller, inspector, client, before)
    for queue in inspector.queues(controller.queue.name):
        yield from _pending(queue)
        for item in inspector.items(queue.name, state="delayed", failing=True, limit=3):
            yield f"{item.key} of {queue.name} failed {counted(item.failures, 'time')}: {item.last_error}"


def _pending(queue: QueueInfo) -> Iterator[str]:
    if queue.depth:
        yield f"{queue.depth} of {queue.name} waiting"
    if queue.processing:
        yield f"{queue.processing} of {queue.name} in progress"


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
