"""The audit: who did what and when, as lines of a log, and of actions in Redis, for all replicas.

The log has logins and refusals, too. Those are not in Redis, where anybody who asks often enough would push
the actions of others out.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flask import g, request

from distq.dashboard.users import Person
from distq.errors import DistqError, RedisError
from distq.redisio.audit_log import AuditLog
from distq.redisio.connection import Connection

logger = logging.getLogger("distq.dashboard.audit")

_problems = logging.getLogger("distq.dashboard")


def audit(text: str, **facts: object) -> None:
    """Log what the person of this request did; ``facts`` are fields of the log's JSON."""
    name, address = _person(), request.remote_addr
    logger.info(
        "%s from %s: %s",
        name or "anonymous",
        address,
        text,
        extra={"person": name, "address": address, **facts},
    )


class Audit:
    """Notes actions before they are done, and their outcomes; no action fails or waits long for it."""

    def __init__(self, connection: Connection) -> None:
        self._log = AuditLog(connection)

    @contextmanager
    def action(self, action: str, queue: str, text: str) -> Iterator[Callable[..., None]]:
        """Note an action in words; within, call what this gives with the outcome, and facts for the log.

        An action that raises a DistqError is noted as failed; the caller logs that.
        """
        fields = {"person": _person(), "address": request.remote_addr, "queue": queue, "action": action}
        fields["text"] = text
        entry_id = self._begin(fields)

        def did(outcome: str, **facts: object) -> None:
            self._end(entry_id, {**fields, "outcome": outcome})
            audit(f"{text}: {outcome}", action=action, queue=queue, **facts)

        try:
            yield did
        except DistqError as error:
            self._end(entry_id, {**fields, "outcome": f"failed: {error}"})
            raise

    def _begin(self, fields: dict[str, str | None]) -> str | None:
        try:
            return self._log.begin(fields)
        except RedisError as error:
            _problems.warning("an action is only in the log, Redis did not take it: %s", error)
            return None

    def _end(self, entry_id: str | None, fields: dict[str, str | None]) -> None:
        if entry_id is None:
            return
        try:
            self._log.end(entry_id, fields)
        except RedisError as error:
            _problems.warning("the outcome of an action is only in the log: %s", error)


def _person() -> str | None:
    """Return the name of the person of this request; None without a login."""
    person: Person | None = g.get("person")
    return (person.name or None) if person else None
