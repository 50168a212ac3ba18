"""The audit log: a line for each action and each login, with the person and the address."""

import logging

from flask import g, request

from distq.dashboard.users import Person

logger = logging.getLogger("distq.dashboard.audit")


def audit(text: str, **facts: object) -> None:
    """Log what the person of this request did; ``facts`` are fields of the log's JSON."""
    person: Person | None = g.get("person")
    name = person.name if person else ""
    logger.info(
        "%s from %s: %s",
        name or "anonymous",
        request.remote_addr,
        text,
        extra={"person": name or None, "address": request.remote_addr, **facts},
    )
