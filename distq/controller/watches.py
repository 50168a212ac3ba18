"""What a controller watches, and which keys an event means (controller-runtime's builder and handlers)."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from distq.client.resources import parse_resource
from distq.controller.event import Event
from distq.controller.predicate import Predicate, all_of
from distq.errors import ConfigError, InvalidKey
from distq.informer.objects import OwnerReference, key_of
from distq.redisio.keys import validate_key
from distq.redisio.scores import validate_priority

logger = logging.getLogger(__name__)

Object = dict[str, Any]
KeysOf = Callable[[Event], list[str]]

LOW_PRIORITY = -100
"""The priority of what no event asked for: lists, resyncs, periods (controller-runtime LowPriority)."""


@dataclass(frozen=True, kw_only=True)
class _Watch:
    """What all watches take: where to look, and which events matter.

    ``resource`` is "apps/v1/Deployment" or "v1/Pod"; ``namespaces`` None is all of them. ``metadata_only``
    asks the API server for nothing but metadata. ``cached`` is for ``Controller.lister``, which is not
    there yet.
    """

    resource: str = field(kw_only=False)
    namespaces: Sequence[str] | None = None
    label_selector: str = ""
    field_selector: str = ""
    predicates: Sequence[Predicate | Callable[[Event], bool]] = ()
    metadata_only: bool = False
    cached: bool = False

    def __post_init__(self) -> None:
        group_kind(self.resource)
        if self.cached:
            raise ConfigError(
                f"cannot cache {self.resource}: a watch keeps no objects. "
                "Leave cached out, and get them through a Client or a SharedInformer."
            )
        if self.namespaces is not None:
            object.__setattr__(self, "namespaces", _namespaces(self.resource, self.namespaces))
        predicates = (self.predicates,) if callable(self.predicates) else tuple(self.predicates)
        object.__setattr__(self, "predicates", predicates)
        all_of(predicates)

    @property
    def predicate(self) -> Predicate:
        """Return all predicates as one."""
        return all_of(self.predicates)

    @property
    def mapping(self) -> str:
        """Return what tells this watch's keys from those of another watch of the same resource."""
        return ""

    @property
    def mapped(self) -> bool:
        """Return whether the keys are others than the object's own."""
        return True


@dataclass(frozen=True, kw_only=True)
class For(_Watch):
    """Watch the resource that is reconciled: an event means the object's own key (controller-runtime For)."""

    @property
    def mapped(self) -> bool:
        """Return False: the keys are the objects' own."""
        return False


@dataclass(frozen=True, kw_only=True)
class Owns(_Watch):
    """Watch objects that the reconciled ones own: an event means the owner's key (controller-runtime Owns).

    ``only_controller`` looks at the one owner reference whose ``controller`` is true.
    """

    only_controller: bool = True

    @property
    def mapping(self) -> str:
        """Return what owners are looked for."""
        return "controller" if self.only_controller else "owners"


@dataclass(frozen=True, kw_only=True)
class Watches(_Watch):
    """Watch objects of which a function tells the keys (controller-runtime EnqueueRequestsFromMapFunc).

    ``keys`` gets the whole object and returns any number of keys; of an update the old object's are added.
    """

    keys: Callable[[Object], Iterable[str]] = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_callable(f"Watches({self.resource})", self.keys)

    @property
    def mapping(self) -> str:
        """Return the function's name: another function means other keys."""
        return f"{getattr(self.keys, '__module__', '')}.{getattr(self.keys, '__qualname__', '')}"


@dataclass(frozen=True)
class Every:
    """Enqueue keys each ``period`` seconds, by the leader alone; ``keys`` is called anew each time."""

    period: float
    keys: Callable[[], Iterable[str]]
    priority: int = LOW_PRIORITY

    def __post_init__(self) -> None:
        if not 0 < self.period < math.inf:
            raise ConfigError(f"bad period of Every: {self.period}. Give seconds, more than 0.")
        validate_priority(self.priority)
        _require_callable("Every", self.keys)


ResourceWatch = For | Owns | Watches
Watch = ResourceWatch | Every


def group_kind(resource: str) -> tuple[str, str]:
    """Return group and kind of "group/version/Kind" or "version/Kind"; raise ConfigError for other text."""
    api_version, kind = parse_resource(resource)
    return api_version.rpartition("/")[0], kind


def own_key(event: Event) -> list[str]:
    """Return the object's own key (controller-runtime EnqueueRequestForObject)."""
    return [key_of(event.metadata)]


def owner_keys(owner: str, *, namespaced: bool, only_controller: bool) -> KeysOf:
    """Return the function from an object to its owners of one group and kind, whatever their version.

    What cannot be an object's name is left out. Source: controller-runtime EnqueueRequestForOwner.
    """
    wanted = group_kind(owner)

    def keys(event: Event) -> list[str]:
        owners = event.metadata.get("ownerReferences") or []
        names = [one["name"] for one in owners if _is(one, wanted, only_controller)]
        prefix = f"{event.namespace}/" if namespaced and event.namespace else ""
        return [prefix + name for name in names if _may_exist(prefix, name, event)]

    return keys


def function_keys(function: Callable[[Object], Iterable[str]]) -> KeysOf:
    """Return the user's function, of an event."""
    return lambda event: list(list_of_keys(function(event.object)))


def list_of_keys(answer: Iterable[str] | None) -> Iterable[str]:
    """Return what a user's function gave, refusing the one answer that only looks right; None is nothing."""
    if isinstance(answer, str):
        raise TypeError(f"a function returned the text {answer!r:.80}; return a list of keys")
    return answer or ()


def identities(watches: Sequence[ResourceWatch]) -> list[str]:
    """Return a text for each watch that tells it from the others, and is the same in each process."""
    texts = [f"{'/'.join(group_kind(watch.resource))} {watch.mapping}" for watch in watches]
    seen: Counter[str] = Counter()
    numbered = []
    for text, watch in zip(texts, watches, strict=True):
        whole = f"{text} {watch.label_selector} {watch.field_selector}"
        seen[whole] += 1
        numbered.append(whole if seen[whole] == 1 else f"{whole} #{seen[whole]}")
    return numbered


def _is(owner: OwnerReference, wanted: tuple[str, str], only_controller: bool) -> bool:
    if only_controller and not owner.get("controller"):
        return False
    group, slash, _ = owner.get("apiVersion", "").rpartition("/")
    return (group if slash else "", owner.get("kind", "")) == wanted


def _may_exist(prefix: str, name: str, owned: Event) -> bool:
    """Return whether an owner may have the name; API servers take any text for one in a reference.

    So anybody who may write an owned object could stop its stream.
    Source: apimachinery IsValidPathSegmentName.
    """
    try:
        validate_key(prefix + name)
    except InvalidKey as error:
        logger.warning("%r: its owner cannot exist: %s", owned, error)
        return False
    if name in {".", ".."} or not {"/", "%"}.isdisjoint(name):
        logger.warning("%r: its owner cannot exist: %r is no name", owned, name)
        return False
    return True


def _namespaces(resource: str, namespaces: Sequence[str]) -> tuple[str, ...]:
    if isinstance(namespaces, str) or not namespaces or not all(namespaces):
        raise ConfigError(
            f"bad namespaces of {resource}: {namespaces!r:.80}. Give a list of names, or None for all."
        )
    return tuple(dict.fromkeys(namespaces))


def _require_callable(what: str, function: object) -> None:
    if not callable(function):
        raise ConfigError(f"bad keys of {what}: {function!r:.80} is not callable. Give a function.")
