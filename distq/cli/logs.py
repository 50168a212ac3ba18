"""Log lines on stderr, for people or for machines."""

import functools
import json
import logging
from typing import Any

from distq.cli.log_queue import FLUSH_TIME, LogQueue
from distq.cli.output import escape
from distq.metrics import LOG_LINES_DROPPED, MetricsProvider
from distq.wording import rfc3339
from distq.workqueue.current import RequestFilter, current_request

_NOISY = ("urllib3", "kubernetes", "asyncio", "redis", "aiohttp", "waitress")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(level: str, log_format: str, *, libraries: bool = False) -> None:
    """Send the logs of this process to stderr: distq's from ``level`` on, all others from info on at most.

    Libraries that log much begin at warnings. With ``libraries`` all log everything.
    """
    handler = LogQueue(JsonFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(RequestFilter())
    own = logging.getLevelNamesMapping()[level.upper()]
    others = logging.DEBUG if libraries else max(own, logging.INFO)
    logging.basicConfig(level=others, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    logging.getLogger("distq").setLevel(own)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.NOTSET if libraries else logging.WARNING)


def flush() -> None:
    """Wait until stderr has taken what was logged, for a moment."""
    for queue in _queues():
        queue.flush_within(FLUSH_TIME)


def count_dropped(metrics: MetricsProvider) -> None:
    """Count to this provider the lines that stderr did not take in time."""
    metrics.count(LOG_LINES_DROPPED, (), 0)  # it is 0, and not absent, until a line is dropped
    for queue in _queues():
        queue.on_dropped = functools.partial(metrics.count, LOG_LINES_DROPPED, ())


def _queues() -> list[LogQueue]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, LogQueue)]


class TextFormatter(logging.Formatter):
    """One line a record, with the request if a reconcile wrote it, and the level if something is wrong."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line without its traceback."""
        level = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
        request, of = "", vars(record)
        if current_request() is not None:  # lines of distq about a reconcile begin with the same words
            request = f"{of.get('queue')} {of.get('key')} attempt {of.get('attempt')}: "
        return f"{record.asctime} {level}{escape(request + record.message)}"

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the traceback, indented, with everything that a terminal would act on escaped."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        """Return the stack that ``stack_info=True`` asks for, likewise."""
        return _indented(stack_info)


def _indented(text: str) -> str:
    """Indent lines, so that they do not look like records of their own."""
    return "\n".join(f"  {escape(line)}" for line in text.splitlines())


class JsonFormatter(logging.Formatter):
    """One JSON object a record, with what the caller gave as ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line: dict[str, Any] = {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        own = _STANDARD | line.keys()  # an extra must not overwrite the time, the level or the logger
        line |= {name: value for name, value in vars(record).items() if name not in own}
        if record.exc_info and "traceback" not in line:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
