"""A queue in this process with the interface of one in Redis: for tests, and to run the specification."""

from dataclasses import replace
from typing import Unpack

from distq.errors import ConfigError
from distq.mistakes import suggesting_keywords
from distq.wording import a_type
from distq.workqueue.handle import QueueHandle
from distq.workqueue.main_thread import run_apart
from distq.workqueue.memory.engine import MemoryEngine
from distq.workqueue.memory.memory_session import MemorySession
from distq.workqueue.options import QueueKeywords, QueueOptions


@suggesting_keywords(*QueueKeywords.__annotations__)
class MemoryQueue(QueueHandle):
    """A handle of a queue in this process; it behaves as ``Queue`` does, without Redis.

    It has its own items, or those of the handle that it ``shares`` with, as if each were in its own process.
    Delays follow ``clock``, the first handle's. Handles keep their claims until they are closed or call
    ``abandon``. Other arguments are those of ``Queue``.
    Safe for threads, not for forks.
    """

    _engine: MemoryEngine
    _session: MemorySession

    def __init__(
        self,
        name: str,
        *,
        shares: "MemoryQueue | None" = None,
        **keywords: Unpack[QueueKeywords],
    ) -> None:
        options = QueueOptions.of(keywords)
        if options.wait_replicas:
            raise ConfigError("bad wait_replicas: a queue in memory has no replicas. Leave it out.")
        if shares is not None and not isinstance(shares, MemoryQueue):
            raise ConfigError(f"bad shares {shares!r:.80}: {a_type(shares)}. Give a MemoryQueue.")
        if shares is not None and shares.name != name:
            raise ConfigError(f"bad shares: a handle of {shares.name}, not of {name}. Give both one name.")
        engine = MemoryEngine(name, options.clock) if shares is None else shares._engine  # noqa: SLF001  # our own
        if options.fair_by:
            engine.state.items.share(options.fair_by, replaces=False)
        super().__init__(name, engine, replace(options, clock=engine.clock))

    def abandon(self) -> None:
        """Lose this handle's claims, as if its process had died and the claim duration were over.

        That counts as a crash of each item if another handle is in use. The requests are cancelled; their
        settlements are refused.
        """
        run_apart(self._session.abandon)
