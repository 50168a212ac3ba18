"""The log of reconciles: a line for each failure, and at debug level one for every other reconcile."""

import logging
import shlex
import time
from typing import Any

from distq.wording import duration
from distq.workqueue.handle import QueueHandle
from distq.workqueue.interface import Disposition, Park, Retry, Settlement

_logger = logging.getLogger("distq")


def log_reconcile(name: str, queue: QueueHandle, settlement: Settlement, disposition: Disposition) -> None:
    """Log how the reconcile of one request ended and when it runs again, in one line.

    The traceback follows at the attempts 1, 2, 4, 8 and so on, and at debug level at each.
    """
    request, outcome = settlement.request, settlement.outcome
    debug = _logger.isEnabledFor(logging.DEBUG)
    fields: dict[str, Any] = {
        "queue": name,
        "key": request.key,
        "attempt": request.attempt,
        "fence": request.fence,
        "worker": queue.worker,
        "outcome": type(outcome).__name__.lower(),
        "seconds": round(settlement.took, 6),
    }
    shown: BaseException | None = None
    if isinstance(outcome, Retry | Park):
        level, what = logging.WARNING, f"failed: {' '.join(outcome.error.split()).removesuffix('.')}"
        fields["error"] = outcome.error
        if outcome.traceback and (debug or _is_power_of_two(request.attempt)):
            shown, fields["traceback"] = outcome.cause, outcome.traceback
    elif debug:
        level, what = logging.DEBUG, fields["outcome"]
    else:
        return
    _logger.log(
        level,
        "%s %s attempt %d %s; %s",
        name,
        request.key,
        request.attempt,
        what,
        _next(name, queue, settlement, disposition),
        exc_info=shown,
        extra=fields,
    )


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _next(name: str, queue: QueueHandle, settlement: Settlement, disposition: Disposition) -> str:
    match disposition.kind:
        case "delayed" if disposition.due is not None:
            return f"next in {duration(disposition.due - time.time())}"
        case "pending":
            return "next as soon as a slot is free"
        case "dead":
            after = queue.revive_dead_after if isinstance(settlement.outcome, Retry) else None
            until = "until it changes" if after is None else f"for {duration(after)}, or until it changes"
            return f"dead {until}: distq requeue {name} {shlex.quote(settlement.request.key)}"
        case "refused":
            return "its claim had ended before: nothing was settled"
        case "unknown":
            return "Redis forgot whether that was settled"
        case _:
            return "nothing pending"
