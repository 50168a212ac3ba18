"""All that feeds one controller's queue while this process leads (controller-runtime pkg/source)."""

from collections.abc import Sequence
from dataclasses import replace

from distq.controller.stream.periodic_source import PeriodicSource
from distq.controller.stream.source_config import SourceConfig
from distq.controller.stream.stream_cleanup import StreamCleanup
from distq.controller.stream.stream_source import StreamSource
from distq.controller.watches import Every, For, Watch, identities, resource_watches
from distq.informer.listwatch import ListerWatcher
from distq.informer.shared_listwatch import shared_by
from distq.workqueue.interface import WorkQueue

Source = StreamSource | PeriodicSource | StreamCleanup
"""What the leader runs in a thread of its own, until ``stop`` is set or there is nothing more to do."""


def sources(watches: Sequence[Watch], queue: WorkQueue, config: SourceConfig) -> list[Source]:
    """Return what to run: a stream for each watch and namespace, a period for each Every, and a cleanup.

    ``config.owned_by`` is taken from the For among the watches.
    """
    owned_by = next((watch.resource for watch in watches if isinstance(watch, For)), "")
    config = replace(config, owned_by=owned_by)
    resources = resource_watches(watches)
    streams = [
        StreamSource(watch, config, identity=identity, namespace=namespace)
        for watch, identity in zip(resources, identities(resources), strict=True)
        for namespace in watch.namespaces or (None,)
    ]
    periods = [PeriodicSource(watch, queue, config) for watch in watches if isinstance(watch, Every)]
    return [*streams, *periods, StreamCleanup(streams, config)]


def share_list_watches(streams: Sequence[StreamSource]) -> None:
    """Let streams that list and watch alike do so once, before any of them runs."""
    alike: dict[ListerWatcher, list[StreamSource]] = {}
    for stream in streams:
        alike.setdefault(stream.list_watch, []).append(stream)
    for list_watch, those in alike.items():
        if len(those) > 1:
            for stream, member in zip(those, shared_by(len(those), list_watch), strict=True):
                stream.list_watch = member
