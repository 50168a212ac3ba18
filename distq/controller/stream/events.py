"""Events of a watch on their way into a queue."""

from collections.abc import Sequence

from distq.controller.event import EventType
from distq.controller.stream.batch import Batch
from distq.controller.stream.committer import Committer
from distq.controller.stream.known import NEVER, Known
from distq.controller.stream.routing import Replaced, Router, RoutingError
from distq.informer.wire import WatchEvent

_TYPES: dict[str, EventType] = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}


def hand_over(events: Sequence[WatchEvent], router: Router, committer: Committer) -> None:
    """Commit where events lead, in their order, in as few commits as they fit.

    Where a function fails on one, and its stream is to stop there, those before it are committed. Raises
    RoutingError, and what ``Committer.commit`` raises.
    """
    known: dict[str, Known] = {}
    replaced: dict[str, Replaced] = {}
    if router.compares:
        router.recall(events, committer.handed_over)
    if router.mapped:
        names = list(dict.fromkeys(event.object.key for event in events))
        known = dict(zip(names, committer.known_of(names), strict=True))
        updated = (event.object.key for event in events if event.type == "MODIFIED")
        replaced = router.replaced(updated, committer.cached_of)
    batch = Batch(committer)
    for event in events:
        obj, name = event.object, event.object.key
        try:
            route = router.route(_TYPES[event.type], obj, known.get(name, NEVER), replaced.get(name))
        except RoutingError:
            batch.flush()
            raise
        batch.add(route, obj.version)
        if router.mapped:
            known[name], replaced[name] = route.known or NEVER, obj
    batch.flush()
