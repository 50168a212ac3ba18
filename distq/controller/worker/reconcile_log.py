"""What is logged of each reconcile: a line for a failure, and at debug level one for every other."""

import logging
import time

from distq.wording import duration
from distq.workqueue.interface import Disposition, Park, Retry, Settlement

_logger = logging.getLogger("distq")


def log_reconcile(name: str, settlement: Settlement, disposition: Disposition) -> None:
    """Log how the reconcile of one request ended and what comes next, in one line."""
    request, outcome = settlement.request, settlement.outcome
    if isinstance(outcome, Retry | Park):
        level = logging.WARNING
        what = f"failed: {_one_line(outcome.error)}"
    elif not _logger.isEnabledFor(logging.DEBUG):
        return
    else:
        level = logging.DEBUG
        what = type(outcome).__name__.lower()
    _logger.log(
        level,
        "%s %s attempt %d %s; %s",
        name,
        request.key,
        request.attempt,
        what,
        _next(name, settlement, disposition),
    )
    if isinstance(outcome, Retry | Park) and outcome.traceback:
        _logger.debug("%s %s %s", name, request.key, outcome.traceback)


def _one_line(error: str) -> str:
    return " ".join(error.split())


def _next(name: str, settlement: Settlement, disposition: Disposition) -> str:
    match disposition.kind:
        case "delayed" if disposition.due is not None:
            return f"next in {duration(disposition.due - time.time())}"
        case "pending":
            return "next as soon as a slot is free"
        case "parked":
            return f"parked until it changes: distq requeue {name} {settlement.request.key}"
        case "refused":
            return "its claim had ended before: nothing was settled"
        case _:
            return "nothing pending"
