"""Server-side apply: what a manager applied before and leaves out now goes.

Ownership is what each manager applied last; what PUT and PATCH wrote belongs to
nobody, and conflicts are always won. That is less than the real server keeps in
``managedFields``, and enough for controllers that apply with force.
Source: apimachinery pkg/util/managedfields.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from distq.testing.apiserver.patches import SET_LISTS, merge_key
from distq.testing.apiserver.store import Collection, Store, StoreEvent

Configuration = dict[str, Any]
Owner = tuple[str, str]
"""A field manager, and the subresource that it applies to."""

_OWNED_BY_NOBODY = {"name", "namespace", "uid", "resourceVersion"}


class AppliedConfigurations:
    """What each manager applied last to each living object."""

    def __init__(self, store: Store) -> None:
        self._applied: dict[str, dict[Owner, Configuration]] = defaultdict(dict)
        store.observers.append(self._observe)

    def remember(self, uid: str, owner: Owner, configuration: Configuration) -> None:
        """Record what was applied, except what says only to which object."""
        metadata = configuration.get("metadata") or {}
        owned = {field: value for field, value in metadata.items() if field not in _OWNED_BY_NOBODY}
        self._applied[uid][owner] = dict(configuration) | {"metadata": owned}

    def without_dropped(self, live: Configuration, owner: Owner, new: Configuration) -> Configuration:
        """Return the object without what its owner applied before and does not apply now."""
        applied = self._applied.get(live["metadata"]["uid"], {})
        others = [configuration for each, configuration in applied.items() if each != owner]
        return _without_dropped(live, applied.get(owner, {}), new, others)

    def _observe(self, _: Collection, event: StoreEvent) -> None:
        if event.gone:
            self._applied.pop(event.current.metadata["uid"], None)


def _without_dropped(
    live: Configuration, last: Configuration, new: Configuration, others: Sequence[Configuration]
) -> Configuration:
    kept = dict(live)
    for field in last.keys() & live.keys():
        theirs = [each[field] for each in others if field in each]
        value = _value_without_dropped(field, live[field], last[field], new.get(field), theirs)
        if field in new or theirs or (value and value is not live[field]):
            kept[field] = value
        else:
            del kept[field]
    return kept


def _value_without_dropped(field: str, live: Any, last: Any, new: Any, theirs: Sequence[Any]) -> Any:
    if isinstance(live, dict) and isinstance(last, dict):
        others = [each for each in theirs if isinstance(each, dict)]
        return _without_dropped(live, last, new if isinstance(new, dict) else {}, others)
    if isinstance(live, list) and isinstance(last, list) and (key := merge_key(field, [*live, *last])):
        by_key = [{each.get(key): each for each in items or ()} for items in (live, last, new, *theirs)]
        return list(_without_dropped(by_key[0], by_key[1], by_key[2], by_key[3:]).values())
    if field in SET_LISTS and isinstance(live, list):
        applied = {each for items in (new or (), *theirs) for each in items}
        return [each for each in live if each in applied or each not in last]
    return live
