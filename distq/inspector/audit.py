"""The audit: who changed what in queues and when, in Redis for all processes that show it."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from distq.errors import DistqError, LayoutTooNew, RedisError
from distq.inspector.info import AuditSource
from distq.redisio.audit_log import AuditLog
from distq.redisio.connection import Connection
from distq.redisio.queue_store import QueueStore

logger = logging.getLogger("distq.inspector")


class Actor(NamedTuple):
    """Who acts: a person, None without a login, from an address or machine, by a dashboard or a command."""

    person: str | None
    address: str | None
    via: AuditSource


class Outcome(Protocol):
    """Takes the outcome of an action, and facts for the log."""

    def __call__(self, outcome: str, **facts: object) -> None:
        """Note it."""


class Audit:
    """Notes actions before they are done, and their outcomes; no action fails or waits long for it.

    ``actor`` is asked at each action, ``log`` is called with the text, the action, the queue and facts of one
    that succeeded.
    """

    def __init__(
        self, connection: Connection, actor: Callable[[], Actor], log: Callable[..., None] | None = None
    ) -> None:
        self._connection = connection
        self._actor = actor
        self._log = log

    @contextmanager
    def action(self, action: str, queue: str, text: str) -> Iterator[Outcome]:
        """Note an action in words; within, call what this gives with the outcome.

        An action without one that raises a DistqError is noted as failed; the caller logs that. Raises
        InvalidQueueName.
        """
        log = AuditLog(QueueStore(self._connection, queue))
        fields = {**self._actor()._asdict(), "action": action, "text": text}
        entry_id = _begin(log, fields)
        has_outcome = False

        def did(outcome: str, **facts: object) -> None:
            nonlocal has_outcome
            has_outcome = True
            _end(log, entry_id, {**fields, "outcome": outcome})
            if self._log:
                self._log(f"{text}: {outcome}", action=action, queue=queue, **facts)

        try:
            yield did
        except DistqError as error:
            if not has_outcome:
                _end(log, entry_id, {**fields, "outcome": f"failed: {error}"})
            raise


def _begin(log: AuditLog, fields: dict[str, str | None]) -> str | None:
    try:
        return log.begin(fields)
    except LayoutTooNew:  # the action would be refused, too
        raise
    except RedisError as error:
        logger.warning("Redis did not take an action into the audit: %s", error)
        return None


def _end(log: AuditLog, entry_id: str | None, fields: dict[str, str | None]) -> None:
    if entry_id is None:
        return
    try:
        log.end(entry_id, fields)
    except RedisError as error:
        logger.warning("Redis did not take the outcome of an action into the audit: %s", error)
