"""A queue in this process, used as one in Redis is: for tests, and as the words of the specification."""

from distq.clock import SYSTEM_CLOCK, Clock
from distq.errors import ConfigError
from distq.metrics import MetricsProvider
from distq.spans import SpanProvider
from distq.wording import a_type
from distq.workqueue.handle import QueueHandle
from distq.workqueue.memory.engine import MemoryEngine
from distq.workqueue.memory.memory_session import MemorySession
from distq.workqueue.rate_limiters import RateLimiter


class MemoryQueue(QueueHandle):
    """A handle of a queue in this process, which does what ``Queue`` does without Redis.

    Its items are its own, or those of the handle that it ``shares`` with, as if both were in
    processes of their own. Delays follow ``clock``, that of the first handle. Handles live until
    they are closed or ``abandon`` what they hold. Other arguments are those of ``Queue``.
    Safe for threads, not for forks.
    """

    _engine: MemoryEngine
    _session: MemorySession

    def __init__(
        self,
        name: str,
        *,
        shares: "MemoryQueue | None" = None,
        rate_limiter: RateLimiter | None = None,
        max_retries: int | None = None,
        revive_dead_after: float | None = None,
        claim_duration: float = 30.0,
        max_length: int | None = None,
        metrics: MetricsProvider | None = None,
        spans: SpanProvider | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if shares is not None and not isinstance(shares, MemoryQueue):
            raise ConfigError(f"bad shares {shares!r:.80}: {a_type(shares)}. Give a MemoryQueue.")
        if shares is not None and shares.name != name:
            raise ConfigError(f"bad shares: a handle of {shares.name}, not of {name}. Give both one name.")
        engine = MemoryEngine(name, clock) if shares is None else shares._engine  # noqa: SLF001  # our own
        super().__init__(
            name,
            engine,
            rate_limiter=rate_limiter,
            max_retries=max_retries,
            revive_dead_after=revive_dead_after,
            claim_duration=claim_duration,
            max_length=max_length,
            metrics=metrics,
            spans=spans,
            clock=engine.clock,
        )

    def abandon(self) -> None:
        """Lose what this handle holds, as if its process had died and the claim duration were over.

        That counts as a crash of each item if another handle is in use. The requests are cancelled, and
        to settle them is refused.
        """
        self._session.abandon()
