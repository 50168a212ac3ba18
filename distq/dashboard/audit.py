"""The actions of people on this dashboard: in the audit, and as lines of a log.

The log has logins and refusals, too. Those are not in the audit, where anybody who asks often enough would
push the actions of others out.
"""

import logging

from flask import g, request

from distq.dashboard.users import Person
from distq.inspector.audit import Actor

logger = logging.getLogger("distq.dashboard.audit")


def audit(text: str, **facts: object) -> None:
    """Log what the person of this request did; ``facts`` are fields of the log's JSON."""
    person, address, _ = actor()
    logger.info(
        "%s from %s: %s",
        person or "anonymous",
        address,
        text,
        extra={"person": person, "address": address, **facts},
    )


def actor() -> Actor:
    """Return the person of this request."""
    person: Person | None = g.get("person")
    return Actor((person.name or None) if person else None, request.remote_addr, "dashboard")
