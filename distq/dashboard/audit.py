"""Who did what, and from where: a line in the log for each action, and for each login."""

import logging

from flask import g, request

from distq.dashboard.users import Person

logger = logging.getLogger("distq.dashboard.audit")


def audit(text: str, **facts: object) -> None:
    """Log what the person who asks has done; ``facts`` are fields of the log's JSON."""
    person: Person | None = g.get("person")
    name = person.name if person else ""
    logger.info(
        "%s from %s: %s",
        name or "somebody",
        request.remote_addr,
        text,
        extra={"person": name or None, "address": request.remote_addr, **facts},
    )
