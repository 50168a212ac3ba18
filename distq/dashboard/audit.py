"""The person of each request, and a log of what people do: actions, logins and refusals.

Logins and refusals are not in the audit in Redis, where many of them would push out the actions of others.
"""

import logging

from flask import g, request

from distq.dashboard.users import Person
from distq.inspector.operator import Actor

logger = logging.getLogger(__name__)


def actor() -> Actor:
    """Return the person and the address of this request; no person without a login."""
    person: Person | None = g.get("person")
    return Actor((person.name or None) if person else None, request.remote_addr, "dashboard")


def log_action(text: str, **facts: object) -> None:
    """Log what the person of this request did; ``facts`` are fields of the log's JSON."""
    person, address, _ = actor()
    about = {"person": person, "address": address, **facts}
    logger.info("%s from %s: %s", person or "anonymous", address, text, extra=about)
