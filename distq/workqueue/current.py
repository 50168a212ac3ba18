"""Which request this thread or task reconciles: for log lines, and for what is called far below a handler."""

import logging
from contextvars import ContextVar

from distq.workqueue.interface import Request

_current: ContextVar[tuple[str, Request] | None] = ContextVar("distq_current_request", default=None)


def enter(queue: str, request: Request) -> None:
    """Let the request of this queue be what this thread or task, and tasks that it starts, reconcile."""
    _current.set((queue, request))


def current_request() -> Request | None:
    """Return the request that is being reconciled here, None outside of a Controller's reconcile function.

    It is that of the thread or task; tasks and ``asyncio.to_thread`` take it along, threads that a handler
    starts itself do not.
    """
    return reconciling[1] if (reconciling := _current.get()) else None


class RequestFilter(logging.Filter):
    """Gives log records of a reconcile, whoever writes them, ``queue``, ``key``, ``attempt`` and ``fence``.

    For a ``logging.Handler`` of one's own: ``handler.addFilter(RequestFilter())``. It drops nothing. Records
    from elsewhere lack these, and what the caller gave as ``extra`` stays.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Complete the record."""
        if reconciling := _current.get():
            queue, request = reconciling
            of_request = {"key": request.key, "attempt": request.attempt, "fence": request.fence}
            vars(record).update({"queue": queue, **of_request, **vars(record)})
        return True
