"""What one controller watches, followed by the process that leads."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence

from distq.client.resources import UnknownResource
from distq.controller.stream.catching_up import CatchingUp
from distq.controller.stream.sources import Source
from distq.controller.stream.stream_source import StreamSource
from distq.errors import ApiError, ConfigError
from distq.metrics import STREAM_LAG, STREAM_SYNCED, Sample
from distq.mistakes import SourceLine, pointed
from distq.wording import counted

_logger = logging.getLogger("distq")


class ControllerSources:
    """One controller's sources during a term."""

    def __init__(
        self,
        name: str,
        sources: Sequence[Source],
        *,
        sync_timeout: float,
        catching_up: CatchingUp,
        defined_at: SourceLine | None = None,
    ) -> None:
        self.name = name
        self.sources = sources
        self.streams = [source for source in sources if isinstance(source, StreamSource)]
        self._sync_timeout = sync_timeout
        self._sync_by = time.monotonic() + sync_timeout
        self._catching_up = catching_up
        self._defined_at = defined_at
        self._synced = False
        self._failure: BaseException | None = None

    def begin(self) -> None:
        """Let workers wait for the caches, before any source runs; raise RedisError where that failed."""
        self._catching_up.begin()
        self.begin_time()

    def begin_time(self) -> None:
        """Count the time to sync from now on: until now another program worked on the queue."""
        self._sync_by = time.monotonic() + self._sync_timeout

    def run(self, source: Source, stop: threading.Event) -> None:
        """Run one source in its thread; keep what it fails with for ``check``."""
        try:
            source.run(stop)
        except BaseException as error:  # noqa: BLE001 - check raises it
            if not stop.is_set():
                self._failure = error
                if isinstance(error, ConfigError | UnknownResource):
                    pointed(error, self._defined_at)

    def check(self) -> None:
        """Log once that all streams are synced; raise what a source failed with, or that it took too long."""
        if self._failure is not None:
            raise self._failure
        self._catching_up.check()
        if self._synced:
            return
        missing = ", ".join(stream.resource for stream in self.streams if not stream.synced)
        if not missing:
            self._synced = True
            if self.streams:
                _logger.info("synced   %s", self._describe())
        elif time.monotonic() > self._sync_by:
            raise ApiError(f"cannot sync {missing}: not listed in time. Check its size and the API server.")

    def gauges(self) -> Iterator[Sample]:
        """Yield for each resource the greatest lag of its streams, and whether all of them are synced."""
        for resource in {stream.resource for stream in self.streams}:
            streams = [stream for stream in self.streams if stream.resource == resource]
            labels = (self.name, resource)
            yield STREAM_LAG, labels, max(stream.lag for stream in streams)
            yield STREAM_SYNCED, labels, float(all(stream.synced for stream in streams))

    def _describe(self) -> str:
        parts = [
            f"{stream.resource} "
            + (f"resumed at {stream.resumed_at}" if stream.resumed_at else counted(stream.objects, "object"))
            for stream in self.streams
        ]
        enqueued = sum(stream.enqueued for stream in self.streams)
        return f"{', '.join(parts)}; {counted(enqueued, 'key')} enqueued"
