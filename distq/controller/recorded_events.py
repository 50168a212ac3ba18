"""Records events of failed reconciles for a Manager, and sends the events that wait at its end."""

import logging
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import ConfigError
from distq.metrics import MetricsProvider
from distq.wording import counted
from distq.workqueue.interface import Park, Retry, Settlement

if TYPE_CHECKING:
    from distq.client.client import Client
    from distq.client.objects import Object

LEAST_FLUSH, LONGEST_FLUSH = 0.3, 2.0
"""Seconds that events get at the end, at least and at most; between them, the rest of the grace period.

The time for which the parts of the process closed before counts: an API server that keeps the lease waiting
does the same to events.
"""

_FOUND_FOR = 60.0
"""Seconds for which an object that was found is not read again, even if it fails often."""

_FOUND_AT_MOST = 4096

_logger = logging.getLogger("distq")


class FailureEvents:
    """Records a Warning event about the object of each failed reconcile of one controller.

    The reason is the error's class, the message its text. The object is found when the event is sent.
    """

    def __init__(self, client: "Client", resource: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client = client
        self._resource = resource
        self._clock = clock
        self._found: OrderedDict[str, tuple[Object, float]] = OrderedDict()

    def settled(self, settlement: Settlement) -> None:
        """Record how a reconcile failed."""
        outcome = settlement.outcome
        if not isinstance(outcome, Retry | Park):
            return
        kind, _, message = outcome.error.partition(": ")
        key = settlement.request.key
        self._client.event(lambda: self._find(key), kind, message or kind, type="Warning")

    def _find(self, key: str) -> "Object | None":
        found, until = self._found.get(key, (None, 0.0))
        if found is not None and self._clock.monotonic() < until:
            return found
        found = self._client.get(self._resource, key)
        if found is not None:
            # all that an event needs of it
            found = {name: found[name] for name in ("apiVersion", "kind", "metadata")}
            self._found[key] = found, self._clock.monotonic() + _FOUND_FOR
            self._found.move_to_end(key)
            if len(self._found) > _FOUND_AT_MOST:
                self._found.popitem(last=False)
        return found


@contextmanager
def counting_drops(metrics: MetricsProvider | None) -> Iterator[None]:
    """Count the events that the process drops in the block, with this provider."""
    with ExitStack() as counting:
        if metrics is not None:
            with suppress(ConfigError):  # without the extra kubernetes there are none
                from distq.client import recorder

                counting.callback(recorder.count_with(metrics))
        yield


def flush_events(grace_left: float, closing_took: float = 0.0) -> None:
    """Wait until the events of this process are sent, not for long; log how many are not."""
    try:
        from distq.client import recorder
    except ConfigError:
        return
    if left := recorder.flush(max(LEAST_FLUSH, min(grace_left, LONGEST_FLUSH - closing_took))):
        _logger.warning("%s not sent: the API server did not answer in time", counted(left, "event"))
