"""The part of a handle that needs no session: it adds keys and reads, on any engine."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from distq.errors import NotReplicated, short_tracebacks
from distq.metrics import MetricsProvider
from distq.redisio.keys import validate_key, validate_queue_name
from distq.redisio.queue_store import batches
from distq.redisio.scores import validate_priority
from distq.safe_providers import safe_metrics, safe_spans
from distq.seconds import Duration, in_seconds
from distq.spans import SpanProvider, current_provider, sending
from distq.workqueue.buffered_adds import BufferedAdds
from distq.workqueue.engine import Engine
from distq.workqueue.interface import queue_full
from distq.workqueue.options import QueueOptions
from distq.workqueue.rate_limiters import microseconds, validate_delay
from distq.workqueue.recorder import Recorder
from distq.workqueue.unanswered import UnansweredAdd


@short_tracebacks
class Producer:
    """Adds keys to a queue. It has no thread and no claims, so each call stays in its caller's thread."""

    def __init__(self, name: str, engine: Engine, options: QueueOptions) -> None:
        self.name = validate_queue_name(name)
        self.options = options
        self._engine = engine
        self._unanswered = UnansweredAdd()
        self._recorder: Recorder | None = None
        if options.metrics is not None:
            self._recorder = Recorder(safe_metrics(options.metrics), self.name)
        self._spans = None if options.spans is None else safe_spans(options.spans)

    def set_metrics_provider(self, metrics: MetricsProvider) -> None:
        """Report metrics to this provider from now on, unless the handle has one."""
        if self._recorder is None:
            self._recorder = Recorder(safe_metrics(metrics), self.name)

    def set_span_provider(self, spans: SpanProvider) -> None:
        """Trace adds and claims with this provider from now on, unless the handle has one."""
        if self._spans is None:
            self._spans = safe_spans(spans)

    def measure(self, metrics: MetricsProvider) -> None:
        """Call ``set_metrics_provider``; the old name stays for one version."""
        _warn_renamed("measure", "set_metrics_provider")
        self.set_metrics_provider(metrics)

    def tell(self, spans: SpanProvider) -> None:
        """Call ``set_span_provider``; the old name stays for one version."""
        _warn_renamed("tell", "set_span_provider")
        self.set_span_provider(spans)

    def add(self, *keys: str, priority: int = 0, after: Duration | None = None) -> int:
        """Make keys pending, now or ``after`` seconds; return how many were not pending before.

        Higher ``priority`` (-900..900) goes first. More than 1000 keys are added in several steps. A handle
        that was shut down still adds: other handles go on with the queue. Raises
        InvalidKey, InvalidPriority, QueueFull, NotReplicated, and InvalidDelay unless ``after`` is finite,
        0 or more; more than ten years counts as ten years. Source: client-go util/workqueue Add, AddAfter.
        """
        self._unanswered.entry = None
        priority = validate_priority(priority)
        delay = 0 if after is None else microseconds(validate_delay(in_seconds(after)))
        spans = (self._spans or current_provider()) if keys else None
        if spans is None:
            return self._add(keys, priority, delay, "")
        with sending(spans, self.name, "add", len(keys)) as link:
            return self._add(keys, priority, delay, link)

    def _add(self, keys: Sequence[str], priority: int, delay: int, link: str) -> int:
        added = accepted = 0
        max_length = self.options.max_length
        for batch in batches(keys):
            try:
                new, fitted = self._engine.add(
                    batch, priority=priority, delay=delay, max_length=max_length, link=link
                )
            except NotReplicated as error:
                if self._recorder is not None:
                    self._recorder.accepted(error.added, error.accepted, delayed=delay > 0)
                error.added += added
                raise
            if self._recorder is not None:
                self._recorder.accepted(new, fitted, delayed=delay > 0)
            added += new
            accepted += fitted
            if fitted < len(batch):
                raise queue_full(self.name, max_length, added, accepted)
        return added

    @contextmanager
    def buffered(self, max_delay: Duration = 0.005) -> Iterator[BufferedAdds]:
        """Buffer adds for at most ``max_delay`` seconds, so that many travel together.

        Use it in a with statement; its end sends the rest. A process that ends within the block loses what it
        has buffered: for a key that must not be lost, use ``add``. Raises InvalidDelay, and at the end of the
        block the errors of ``add``.
        """
        adds = BufferedAdds(self.name, self.add, validate_delay(in_seconds(max_delay), "max_delay"))
        adds.start()
        try:
            yield adds
        finally:
            adds.close()

    def add_after(self, key: str, delay: Duration) -> None:
        """Make the key pending after ``delay`` seconds; of several delays the earliest counts.

        A later plain add supersedes the delay. Source: client-go util/workqueue AddAfter.
        """
        self.add(key, after=delay)

    def forget(self, key: str) -> None:
        """Drop the key's failure record, unless it is dead (client-go util/workqueue Forget)."""
        self._unanswered.entry = None
        self._engine.forget(validate_key(key))

    def num_requeues(self, key: str) -> int:
        """Return how many failures the key has (client-go util/workqueue NumRequeues)."""
        return self._engine.num_requeues(validate_key(key))

    def is_dirty(self, key: str) -> bool:
        """Return whether the key was added again while claimed."""
        return self._engine.is_dirty(validate_key(key))

    def depth(self) -> int:
        """Return how many items wait now: ready, dirty, and delayed ones that are due."""
        return self._engine.depth()


def _warn_renamed(old: str, new: str) -> None:
    warnings.warn(f"{old} is {new} now.", DeprecationWarning, stacklevel=3)
