"""What is known of an object that vanished gives way to its keys, once more, at low priority."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from distq.controller.stream.batch import Batch
from distq.controller.stream.committer import Committer
from distq.controller.stream.known import Known
from distq.controller.stream.routing import Route
from distq.controller.watches import LOW_PRIORITY
from distq.errors import RedisError

SCANS = 4
"""How often the known set is scanned for what vanished."""

Routes = Callable[[Sequence[tuple[str, Known]]], Iterable[Route]]
"""Where objects lead that vanished, and what was known of them."""


def write_tombstones(
    committer: Committer, vanished: Callable[[str, Known], bool], routes: Routes, *, moves: bool = True
) -> Iterator[None]:
    """Enqueue the keys of known objects that vanished, and forget them, a page of the known set a step."""
    batch = Batch(committer, priority=LOW_PRIORITY, moves=moves)
    for page in committer.known_pages():
        for route in routes([row for row in page if vanished(*row)]):
            batch.add(route)
        batch.flush()
        yield


def write_all_tombstones(committer: Committer, listed: Collection[str], routes: Routes) -> None:
    """Do so with all that was not listed, at once; raise RedisError where it cannot be found.

    All that was listed is known by now, so counting shows whether anything else is. A scan misses some
    where Redis is restarted in the midst of it, and is then repeated.
    """
    scans = 0
    while committer.known_count() > len(listed):
        if scans == SCANS:
            raise RedisError(f"more is known of {committer.stream} than a scan shows")
        scans += 1
        for _ in write_tombstones(committer, lambda name, _: name not in listed, routes):
            pass


def drop_unlisted(committer: Committer, listed: Collection[str], version: str) -> None:
    """Drop from the cache what a list of this version did not show: a write came before its event there."""
    batch = Batch(committer)
    for page in committer.cached_names():
        for name in page:
            if name not in listed:
                batch.drop(name, version)
    batch.flush()


def drop_unlisted_parked(committer: Committer, listed: Collection[str]) -> None:
    """Let go of parked objects that no list shows: of what is known no more, no event will come."""
    batch = Batch(committer)
    for page in committer.parked_names():
        for name in page:
            if name not in listed:
                batch.add(Route(name, (), None))
    batch.flush()
