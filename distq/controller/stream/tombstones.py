"""What is known of an object that vanished gives way to its keys, once more, at low priority."""

from collections.abc import Callable, Collection, Iterator

from distq.controller.stream.batch import Batch
from distq.controller.stream.committer import Committer
from distq.controller.stream.known import Known
from distq.controller.stream.mapping import key_of_name
from distq.controller.stream.routing import Route
from distq.controller.watches import LOW_PRIORITY
from distq.errors import RedisError

SCANS = 4
"""How often the known set is scanned for what vanished."""


def write_tombstones(
    committer: Committer,
    vanished: Callable[[str, Known], bool],
    *,
    mapped: bool,
    moves: bool = True,
    version: Callable[[], str] = lambda: "",
) -> Iterator[None]:
    """Enqueue the keys of the known objects that vanished, and forget them, a page of the known set a step.

    ``mapped`` means that their keys are others than their names. They leave the cache as of ``version``, too,
    unless that is "".
    """
    batch = Batch(committer, priority=LOW_PRIORITY, moves=moves)
    for page in committer.known_pages():
        for name, known in page:
            if vanished(name, known):
                keys = known.keys if mapped else key_of_name(name)
                batch.add(Route(name, keys, None, gone_at=version()))
        batch.flush()
        yield


def write_all_tombstones(
    committer: Committer, listed: Collection[str], *, mapped: bool, version: str = ""
) -> None:
    """Do so with all that was not listed, at once; raise RedisError where it cannot be found.

    All that was listed is known by now, so counting shows whether anything else is. A scan misses some
    where Redis is restarted in the midst of it, and is then repeated.
    """
    scans = 0
    while committer.known_count() > len(listed):
        if scans == SCANS:
            raise RedisError(f"more is known of {committer.stream} than a scan shows")
        scans += 1
        for _ in write_tombstones(
            committer, lambda name, _: name not in listed, mapped=mapped, version=lambda: version
        ):
            pass


def drop_unlisted(committer: Committer, listed: Collection[str], version: str) -> None:
    """Drop from the cache what a list of this version did not show: a write came before its event there."""
    batch = Batch(committer)
    for page in committer.cached_names():
        for name in page:
            if name not in listed:
                batch.drop(name, version)
    batch.flush()
