"""The watches of a controller (controller-runtime pkg/builder)."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from distq.client.objects import Object
from distq.client.resources import parse_resource
from distq.controller.functions import require_keys, require_of_object
from distq.controller.predicate import EventTest, Predicate, all_of
from distq.errors import ConfigError
from distq.informer.indexer import NAMESPACE_INDEX, IndexFunc
from distq.informer.selectors import require_selectors
from distq.informer.stored_object import Transform, strip_managed_fields
from distq.mistakes import suggesting_keywords
from distq.redisio.scores import validate_priority
from distq.seconds import Duration, in_seconds
from distq.workqueue.rate_limiters import is_delay

OnError = Literal["park", "stop"]

_INDEX_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")

LOW_PRIORITY = -100
"""The priority of keys without an event: of lists, resyncs, periods (controller-runtime LowPriority)."""


@dataclass(frozen=True, kw_only=True)
class _Watch:
    """The arguments that For, Owns and Watches share; each describes them."""

    mapped: ClassVar[bool] = True
    """Whether the keys are others than the object's own."""

    resource: str = field(kw_only=False)
    namespaces: Sequence[str] | None = None
    label_selector: str = ""
    field_selector: str = ""
    predicates: EventTest | Sequence[EventTest] = ()
    metadata_only: bool = False
    cached: bool = False
    indexers: Mapping[str, IndexFunc] = field(default_factory=dict)
    transform: Transform | None = strip_managed_fields
    on_error: OnError = "park"
    after: Duration = 0.0

    def __post_init__(self) -> None:
        group_kind(self.resource)  # raises for a text that names no resource
        require_selectors(self.resource, self.label_selector, self.field_selector)
        _require_cache(self)
        if self.on_error not in ("park", "stop"):
            raise ConfigError(f"bad on_error of {self.resource}: {self.on_error!r:.80}. Use park or stop.")
        if not is_delay(in_seconds(self.after)):
            raise ConfigError(f"bad after of {self.resource}: {self.after!r:.80}. Give seconds, 0 or more.")
        if self.namespaces is not None:
            object.__setattr__(self, "namespaces", _namespaces(self.resource, self.namespaces))
        object.__setattr__(self, "predicates", _several(self.predicates))
        _require_old_objects(self)

    @property
    def predicate(self) -> Predicate:
        """Return all predicates as one."""
        return all_of(_several(self.predicates))

    @property
    def mapping(self) -> str:
        """Return a text that distinguishes this watch's keys from those of another watch of the resource."""
        return ""


@suggesting_keywords()
@dataclass(frozen=True, kw_only=True)
class For(_Watch):
    """Watch the resource that is reconciled: an event means the object's own key (controller-runtime For).

    :param str resource: The resource as text: ``"apps/v1/Deployment"`` or ``"v1/Pod"``.
    :param Sequence[str] | None namespaces: The namespaces to watch. Default: None, all of them.
    :param str label_selector: A selector as text, evaluated by the API server: ``"app=web"``. Default:
        ``""``.
    :param str field_selector: A selector as text, evaluated by the API server: ``"metadata.name=web"``.
        Default: ``""``.
    :param EventTest | Sequence[EventTest] predicates: Functions of an Event that all must return True for the
        event to count. Default: ().
    :param bool metadata_only: Ask the API server for metadata alone. Default: False.
    :param bool cached: Keep the objects in Redis, for ``Controller.lister``. Default: False.
    :param Mapping[str, IndexFunc] indexers: Functions by the name of their index, from a cached object to the
        texts under which ``by_index`` finds it. Default: {}.
    :param Transform | None transform: A function from an object to the part of it that the cache keeps; None
        keeps it whole. Default: strip_managed_fields, all but metadata.managedFields.
    :param OnError on_error: If one of these functions raises for an object: ``"park"`` makes its item dead
        and goes on, ``"stop"`` waits before the object until the function works. Default: ``"park"``.
    :param Duration after: Seconds after which the keys of an event become pending: further events of a key
        meanwhile cost no reconcile of their own, and an earlier add counts (client-go AddAfter).
        Default: 0.
    """

    mapped: ClassVar[bool] = False


@suggesting_keywords()
@dataclass(frozen=True, kw_only=True)
class Owns(_Watch):
    """Watch objects that the reconciled ones own: an event means the owner's key (controller-runtime Owns).

    :param str resource: The resource as text: ``"apps/v1/Deployment"`` or ``"v1/Pod"``.
    :param Sequence[str] | None namespaces: The namespaces to watch. Default: None, all of them.
    :param str label_selector: A selector as text, evaluated by the API server: ``"app=web"``. Default:
        ``""``.
    :param str field_selector: A selector as text, evaluated by the API server: ``"metadata.name=web"``.
        Default: ``""``.
    :param EventTest | Sequence[EventTest] predicates: Functions of an Event that all must return True for the
        event to count. Default: ().
    :param bool metadata_only: Ask the API server for metadata alone. Default: False.
    :param bool cached: Keep the objects in Redis, for ``Controller.lister``. Default: False.
    :param Mapping[str, IndexFunc] indexers: Functions by the name of their index, from a cached object to the
        texts under which ``by_index`` finds it. Default: {}.
    :param Transform | None transform: A function from an object to the part of it that the cache keeps; None
        keeps it whole. Default: strip_managed_fields, all but metadata.managedFields.
    :param OnError on_error: If one of these functions raises for an object: ``"park"`` makes its item dead
        and goes on, ``"stop"`` waits before the object until the function works. Default: ``"park"``.
    :param Duration after: Seconds after which the keys of an event become pending: further events of a key
        meanwhile cost no reconcile of their own, and an earlier add counts (client-go AddAfter).
        Default: 0.
    :param bool only_controller: Look at the one owner reference whose ``controller`` is true; False: at all
        owner references. Default: True.
    """

    only_controller: bool = True

    @property
    def mapping(self) -> str:
        """Return which owners are looked for."""
        return "controller" if self.only_controller else "owners"


@suggesting_keywords()
@dataclass(frozen=True, kw_only=True)
class Watches(_Watch):
    """Watch objects whose keys a function returns (controller-runtime EnqueueRequestsFromMapFunc).

    :param str resource: The resource as text: ``"apps/v1/Deployment"`` or ``"v1/Pod"``.
    :param Callable[[Object], Iterable[str]] keys: A function from the whole object to any number of keys; for
        an update the keys of the old object are added, too.
    :param Sequence[str] | None namespaces: The namespaces to watch. Default: None, all of them.
    :param str label_selector: A selector as text, evaluated by the API server: ``"app=web"``. Default:
        ``""``.
    :param str field_selector: A selector as text, evaluated by the API server: ``"metadata.name=web"``.
        Default: ``""``.
    :param EventTest | Sequence[EventTest] predicates: Functions of an Event that all must return True for the
        event to count. Default: ().
    :param bool metadata_only: Ask the API server for metadata alone. Default: False.
    :param bool cached: Keep the objects in Redis, for ``Controller.lister``. Default: False.
    :param Mapping[str, IndexFunc] indexers: Functions by the name of their index, from a cached object to the
        texts under which ``by_index`` finds it. Default: {}.
    :param Transform | None transform: A function from an object to the part of it that the cache keeps; None
        keeps it whole. Default: strip_managed_fields, all but metadata.managedFields.
    :param OnError on_error: If one of these functions raises for an object: ``"park"`` makes its item dead
        and goes on, ``"stop"`` waits before the object until the function works. Default: ``"park"``.
    :param Duration after: Seconds after which the keys of an event become pending: further events of a key
        meanwhile cost no reconcile of their own, and an earlier add counts (client-go AddAfter).
        Default: 0.
    """

    keys: Callable[[Object], Iterable[str]] = field(kw_only=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_keys(f"Watches({self.resource})", self.keys, arguments=1)

    @property
    def mapping(self) -> str:
        """Return the function's name: another function means other keys."""
        return qualified_name(self.keys)


@suggesting_keywords()
@dataclass(frozen=True, init=False)
class Every:
    """Enqueue keys each ``period`` seconds, by the leader alone.

    :param float period: Seconds between two calls of ``keys``, more than 0.
    :param Callable[[], Iterable[str]] keys: A function that returns the keys; called anew each time.
    :param int priority: The priority of the keys, -900 to 900; higher goes first. Default: -100.
    """

    period: float
    keys: Callable[[], Iterable[str]]
    priority: int = LOW_PRIORITY

    def __init__(
        self, period: Duration, keys: Callable[[], Iterable[str]], priority: int = LOW_PRIORITY
    ) -> None:
        if not (is_delay(number := in_seconds(period)) and number > 0):
            raise ConfigError(f"bad period of Every: {period!r:.80}. Give seconds, more than 0.")
        require_keys("Every", keys, arguments=0)
        object.__setattr__(self, "period", number)
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "priority", validate_priority(priority))


ResourceWatch = For | Owns | Watches
Watch = ResourceWatch | Every


def group_kind(resource: str) -> tuple[str, str]:
    """Return group and kind of "group/version/Kind" or "version/Kind"; raise ConfigError for other text."""
    api_version, kind = parse_resource(resource)
    return api_version.rpartition("/")[0], kind


def resource_watches(watches: Sequence[Watch]) -> list[ResourceWatch]:
    """Return the watches of resources: all but Every."""
    return [watch for watch in watches if not isinstance(watch, Every)]


def require_list(answer: Iterable[str] | None) -> Iterable[str]:
    """Refuse a text, of which each letter would be a key; None is no keys."""
    if isinstance(answer, str):
        raise TypeError(f"a function returned the text {answer!r:.80}; return a list of keys")
    return answer or ()


def identities(watches: Sequence[ResourceWatch]) -> list[str]:
    """Return a text for each watch that no other has, and that is the same in each process."""
    texts = [f"{'/'.join(group_kind(watch.resource))} {watch.mapping}" for watch in watches]
    seen: Counter[str] = Counter()
    numbered = []
    for text, watch in zip(texts, watches, strict=True):
        whole = f"{text} {watch.label_selector} {watch.field_selector}"
        seen[whole] += 1
        # watches may differ by their predicates alone, which have no text
        numbered.append(whole if seen[whole] == 1 else f"{whole} #{seen[whole]}")
    return numbered


def title(watch: Watch) -> str:
    """Return the name of a watch for people: its class, resource, places and selectors."""
    if isinstance(watch, Every):
        return f"Every {watch.period:g} s"
    words = [type(watch).__name__, watch.resource, watch.label_selector, watch.field_selector]
    if watch.namespaces is not None:
        words.append(f"in {' '.join(watch.namespaces)}")
    return " ".join(filter(None, words))


def qualified_name(function: object) -> str:
    """Return the qualified name of a function, the same in each process."""
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"


def _require_cache(watch: _Watch) -> None:
    """Refuse options of a cache that cannot work, and those of a watch without one."""
    for name, switch in {"cached": watch.cached, "metadata_only": watch.metadata_only}.items():
        if not isinstance(switch, bool):
            raise ConfigError(f"bad {name} of {watch.resource}: {switch!r:.80}. Give True or False.")
    if not watch.cached and (watch.indexers or watch.transform is not strip_managed_fields):
        raise ConfigError(f"bad watch of {watch.resource}: nothing is kept to index. Add cached=True.")
    indexers: Any = watch.indexers
    if not isinstance(indexers, Mapping):
        kind = type(indexers).__name__
        raise ConfigError(f"bad indexers of {watch.resource}: a {kind}. Give functions by their names.")
    for name, function in indexers.items():
        if not isinstance(name, str) or not _INDEX_NAME.fullmatch(name):
            raise ConfigError(
                f"bad index {name!r:.80} of {watch.resource}. Use 1 to 63 letters, digits, dots, dashes and "
                "underscores, a letter or digit first."
            )
        if name == NAMESPACE_INDEX:
            raise ConfigError(f"bad index {name} of {watch.resource}: it is always there. Leave it out.")
        require_of_object(f"index {name} of {watch.resource}", function)
    if watch.transform is not None:
        require_of_object(f"transform of {watch.resource}", watch.transform)


def _require_old_objects(watch: _Watch) -> None:
    """Refuse predicates that compare objects where no old object is kept: all events would pass, or none."""
    if watch.predicate.compared != "object":
        return
    if watch.metadata_only:
        raise ConfigError(
            f"bad predicates of {watch.resource}: they compare whole objects, and metadata_only asks for "
            "metadata alone. Leave it out."
        )
    if not watch.cached:
        raise ConfigError(
            f"bad predicates of {watch.resource}: they compare whole objects, of which a cached watch alone "
            "keeps the old one. Add cached=True."
        )


def _several(tests: EventTest | Sequence[EventTest]) -> tuple[EventTest, ...]:
    return (tests,) if callable(tests) else tuple(tests)


def _namespaces(resource: str, namespaces: Sequence[str]) -> tuple[str, ...]:
    if isinstance(namespaces, str) or not namespaces or not all(namespaces):
        raise ConfigError(
            f"bad namespaces of {resource}: {namespaces!r:.80}. Give a list of names, or None for all."
        )
    return tuple(dict.fromkeys(namespaces))  # each once: one namespace is one stream
