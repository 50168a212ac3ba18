"""Log lines on stderr, for people or for machines."""

import json
import logging
import sys
from typing import Any

from distq.cli.output import escape, rfc3339

_NOISY = ("urllib3", "kubernetes", "asyncio", "redis", "aiohttp", "waitress")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(level: str, log_format: str) -> None:
    """Send the logs of this process to stderr; libraries' only from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """One line a record, the level only where something is wrong; tracebacks follow."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line without its traceback."""
        level = f"{record.levelname}: " if record.levelno >= logging.WARNING else ""
        return f"{record.asctime} {level}{escape(record.message)}"

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the traceback, indented, with what a terminal would act upon escaped."""
        return "\n".join(f"  {escape(line)}" for line in super().formatException(ei).splitlines())


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
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
