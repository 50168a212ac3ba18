"""The request that this thread or task reconciles: for log lines, and for code far below a handler."""

import logging
from contextvars import ContextVar

from distq.workqueue.request import Request

_current: ContextVar[tuple[str, Request] | None] = ContextVar("distq_current_request", default=None)


enter = _current.set
"""Note that this thread or task, and tasks that it starts, reconcile a (queue, request)."""


def current_request() -> Request | None:
    """Return the request that is being reconciled here, None outside of a Controller's reconcile function.

    Tasks and ``asyncio.to_thread`` inherit it; threads that a handler starts itself do not.
    """
    return reconciling[1] if (reconciling := _current.get()) else None


class RequestFilter(logging.Filter):
    """Adds ``queue``, ``key``, ``attempt`` and ``fence`` to all log records of a reconcile, of any logger.

    For your own ``logging.Handler``: ``handler.addFilter(RequestFilter())``. It drops no record. Records
    from outside a reconcile get no such fields, and fields given as ``extra`` stay.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; always return True."""
        if reconciling := _current.get():
            queue, request = reconciling
            of_request = {"key": request.key, "attempt": request.attempt, "fence": request.fence}
            # the record last, so that fields given as ``extra`` stay
            vars(record).update({"queue": queue, **of_request, **vars(record)})
        return True
