"""The commands that show the processes of queues: workers and leader."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from distq.cli.options import command, with_settings
from distq.cli.output import print_found, since
from distq.cli.queue_access import exit_if_broken, inspector_of, with_optional_queue
from distq.config import Settings
from distq.wording import age

if TYPE_CHECKING:
    from distq.inspector import QueueView, StreamInfo, WorkerInfo


@command("distq workers foos --json")
@with_optional_queue
@with_settings()
def workers(*, settings: Settings, as_json: bool, queue: str | None) -> None:
    """Show the worker processes of all queues, or of one."""
    _print(settings, queue, lambda found: found.workers, _worker_row, as_json, none="no workers")


@command("distq leader foos")
@with_optional_queue
@with_settings()
def leader(*, settings: Settings, as_json: bool, queue: str | None) -> None:
    """Show the leader of each watched resource and its position, for all queues or for one."""
    _print(settings, queue, lambda found: found.streams, _stream_row, as_json, none="no informer has led yet")


def _print(
    settings: Settings,
    queue: str | None,
    records_of: "Callable[[QueueView], Sequence[Any]]",
    row: Callable[[Any, float], dict[str, str]],
    as_json: bool,
    *,
    none: str,
) -> None:
    """Print the records of the queues as a table or as JSON; exit 1 where a queue could not be read."""
    view = inspector_of(settings, queue).view(queue)
    records = [record for found in view.queues for record in records_of(found)]
    infos = [found.info for found in view.queues]
    if not records:  # those of a broken queue were not seen, so there may be some
        exit_if_broken(infos)
    print_found(records, lambda record: row(record, view.now), as_json, none=none)
    exit_if_broken(infos)


def _worker_row(worker: "WorkerInfo", now: float) -> dict[str, str]:
    return {
        "WORKER": worker.name,
        "QUEUE": worker.queue,
        "HOST": worker.host,
        "PID": str(worker.pid),
        "VERSION": worker.version,
        "UP": since(worker.since, now),
        "HEARTBEAT": since(worker.heartbeat, now),
        "PROCESSING": str(worker.processing),
        "DONE": str(worker.done),
        "FAILED": str(worker.failed),
    }


def _stream_row(stream: "StreamInfo", now: float) -> dict[str, str]:
    return {
        "QUEUE": stream.queue,
        "RESOURCE": stream.resource,
        "LEADER": _leader(stream, now),
        "SINCE": since(stream.leader_since, now),
        "EPOCH": stream.epoch,
        "VERSION": stream.version or "-",
        "SYNCED": _synced(stream),
        "LAG": "-" if stream.lag is None else age(stream.lag),
        "CACHED": "-" if stream.cached is None else str(stream.cached),
        "LAST ERROR": _last_error(stream, now),
    }


def _synced(stream: "StreamInfo") -> str:
    """Return whether a stream is synced, or the version that it has to reach before workers go on."""
    if stream.behind is not None:
        return f"behind {stream.behind}"
    return "yes" if stream.synced else "no" if stream.gone_since is None else "-"


def _leader(stream: "StreamInfo", now: float) -> str:
    name = stream.leader or "-"
    return name if stream.gone_since is None else f"gone {since(stream.gone_since, now)} ({name})"


def _last_error(stream: "StreamInfo", now: float) -> str:
    """Return a stream's last error, with since when it fails, or how long ago that was."""
    if stream.last_error is None:
        return "-"
    if stream.failing_since is not None:
        return f"for {since(stream.failing_since, now)}: {stream.last_error}"
    return f"{since(stream.last_error_at, now)} ago: {stream.last_error}"
