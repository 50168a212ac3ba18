"""What of a queue needs attention: the conditions that the first page lists above the numbers."""

from collections.abc import Iterator
from typing import NamedTuple

from flask import url_for

from distq.inspector import QueueView
from distq.inspector.info import leaderless_since
from distq.wording import age, counted


class Finding(NamedTuple):
    """One condition in words; ``sign`` is the class of its sign, ``url`` the page that shows more."""

    sign: str
    text: str
    url: str


def lacks_workers(found: QueueView) -> bool:
    """Return whether items wait that no open handle can claim."""
    return found.info.depth > 0 and not found.info.workers


def findings(found: QueueView, now: float) -> Iterator[Finding]:
    """Yield the conditions of a queue, the gravest first."""
    info = found.info
    queue, informers = url_for("distq.queue", queue=info.name), url_for("distq.informers")
    if info.broken is not None:
        yield Finding("broken", f"cannot be read: {info.broken}", queue)
        return
    if lacks_workers(found):
        yield Finding(
            "failing", f"{counted(info.depth, 'item')} waiting, no worker", url_for("distq.workers")
        )
    if (gone_since := leaderless_since(found.streams)) is not None:
        yield Finding("gone", f"no leader for {age(now - gone_since)}", informers)
    for stream in found.streams:
        if stream.failing_since is not None:
            yield Finding(
                "failing", f"{stream.resource}: failing for {age(now - stream.failing_since)}", informers
            )
    if info.dead:
        yield Finding("dead", counted(info.dead, "dead item"), f"{queue}?state=dead#items")
    if info.failing > info.dead:
        yield Finding("delayed", f"{counted(info.failing - info.dead, 'item')} failing", f"{queue}#errors")
    if info.paused:
        since = f" for {age(now - info.paused_since)}" if info.paused_since is not None else ""
        yield Finding("paused", f"paused{since}", queue)
