"""The configuration that all sources of one controller's queue share."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from distq.client.client import Client
from distq.clock import SYSTEM_CLOCK, Clock
from distq.controller.stream.committer import Leadership
from distq.metrics import ADDS, STREAM_COMMITS, STREAM_FAILURES, MetricsProvider
from distq.redisio.connection import Connection
from distq.spans import SpanProvider, sending
from distq.workqueue.queue_ownership import Purpose


@dataclass(frozen=True, kw_only=True)
class SourceConfig:
    """The sources' queue, the cluster, and the term of leadership in which they run.

    ``owner`` names the group of processes of which one leads, so that the leader finds streams that it no
    longer watches; ``owned_by`` is the For's resource, which Owns needs. ``resync_period`` in seconds, 0 for
    never. ``lease_duration``: seconds after its last commit from which the leader is taken for gone.
    ``metrics`` receives the commits, ``spans`` those that are not empty. ``purpose`` is the purpose of the
    queue's controller, None if its code does not say. ``fair_by`` sets the fairness of the queue, ""
    leaves it as it is.
    """

    queue: str
    connection: Connection
    client: Client
    leadership: Leadership
    owner: str = ""
    owned_by: str = ""
    revision: str = ""
    resync_period: float = 36000.0
    lease_duration: float = 15.0
    metrics: MetricsProvider | None = None
    spans: SpanProvider | None = None
    purpose: Callable[[], Purpose] | None = None
    fair_by: str = ""
    clock: Clock = SYSTEM_CLOCK

    def count_commit(self, resource: str, added: int) -> None:
        """Count a commit; its new keys are adds of the queue, as those of other producers."""
        if self.metrics is not None:
            self.metrics.count(STREAM_COMMITS, (self.queue, resource), 1)
            if added:
                self.metrics.count(ADDS, (self.queue, self.queue), added)

    def commit_span(self, resource: str, keys: int) -> AbstractContextManager[str]:
        """Report a commit of so many keys, and how it failed, as a span; give the link to it."""
        if self.spans is None:
            return nullcontext("")
        return sending(self.spans, self.queue, "commit", keys, {"distq.resource": resource})

    def count_failures(self, resource: str, failed: int) -> None:
        """Count objects that a watch's functions failed on; 0 makes the metric known."""
        if self.metrics is not None:
            self.metrics.count(STREAM_FAILURES, (self.queue, resource), failed)
