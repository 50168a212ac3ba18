"""Which events of a watch matter (controller-runtime pkg/predicate).

Predicates that compare with the old object let an event through when it is unknown, also when they are
negated: a reconcile too many is harmless, one too few is not. So they answer yes, no or "not known".
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from distq.client.objects import Object
from distq.controller.event import Event
from distq.controller.functions import require_predicate
from distq.errors import ConfigError
from distq.informer.objects import Metadata
from distq.informer.selectors import label_selector

Compared = Literal["", "metadata", "object"]
"""The part of the old object that a predicate reads: none, its metadata, or any."""


@dataclass(frozen=True)
class Predicate:
    """A test of events, combined with ``&``, ``|`` and ``~``.

    The test returns whether the event matters, or None if it cannot decide; then the event passes.
    ``compares`` names the part of ``event.old`` that it reads, which the leader then keeps of every object:
    "metadata", also as True, or "object", of which a watch needs ``cached=True``. Raises ConfigError for
    another word.
    """

    test: Callable[[Event], bool | None]
    compares: Compared | bool = ""

    def __post_init__(self) -> None:
        if not isinstance(self.compares, bool) and self.compares not in ("", "metadata", "object"):
            raise ConfigError(f"bad compares of a predicate: {self.compares!r:.80}. Use metadata or object.")

    @property
    def compared(self) -> Compared:
        """Return the part of the old object that it reads, "" for none."""
        if isinstance(self.compares, bool):
            return "metadata" if self.compares else ""
        return self.compares

    def __call__(self, event: Event) -> bool:
        """Return whether the event passes; one that the test cannot decide does."""
        return self.test(event) is not False

    def __and__(self, other: "Predicate | Callable[[Event], bool]") -> "Predicate":
        """Pass events that both pass."""
        both = self, predicate_of(other)
        most: Compared = max((one.compared for one in both), key=("", "metadata", "object").index)
        return Predicate(lambda event: _and(*(one.test(event) for one in both)), most)

    def __or__(self, other: "Predicate | Callable[[Event], bool]") -> "Predicate":
        """Pass events that one of them passes."""
        return ~(~self & ~predicate_of(other))  # these know the third answer, None

    def __invert__(self) -> "Predicate":
        """Pass events that this one does not pass, and those that it cannot decide."""
        return Predicate(lambda event: _not(self.test(event)), self.compares)


EventTest = Predicate | Callable[[Event], bool]
"""Decides whether an event matters: a Predicate, or a plain function."""


def predicate_of(test: EventTest) -> Predicate:
    """Return a function as a Predicate that does not compare."""
    if isinstance(test, Predicate):
        return test
    require_predicate(test)
    return Predicate(lambda event: bool(test(event)))


def all_of(tests: Iterable[EventTest]) -> Predicate:
    """Return the predicate that passes the events that all of them pass."""
    combined = Predicate(lambda _: True)
    for test in tests:
        combined = combined & test
    return combined


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _changed(part: Callable[[Mapping[str, Any]], Any]) -> Predicate:
    """Filter only updates, by whether a part of the metadata differs from the old object's."""
    return _differing(lambda event, old: bool(part(event.metadata) != part(old["metadata"])), "metadata")


def _differing(differs: Callable[[Event, Object], bool], compares: Compared) -> Predicate:
    def test(event: Event) -> bool | None:
        if event.type != "update":
            return True
        return None if event.old is None else differs(event, event.old)

    return Predicate(test, compares)


def changed(*paths: str) -> Predicate:
    """Drop updates that left all these parts alone, such as ``"status.phase"``: field names, joined by dots.

    A part that is missing counts as null, and a list is compared whole. Below ``metadata.labels`` and
    ``metadata.annotations`` the rest is one name, dots and all. Parts of the metadata are compared on any
    watch, others need ``cached=True``. Raises ConfigError for a bad path; one that leads into a list or text
    raises it as soon as an object shows that.
    """
    if not paths:
        raise ConfigError('changed() of nothing filters all updates. Give paths, as "status.phase".')
    parts = [partial(_part, _fields(path)) for path in paths]
    if all(path.startswith("metadata.") for path in paths):
        return _changed(lambda metadata: [part({"metadata": metadata}) for part in parts])
    return _differing(lambda event, old: any(part(event.object) != part(old) for part in parts), "object")


generation_changed = _changed(lambda metadata: metadata.get("generation"))
"""Drop updates that left the spec alone (controller-runtime GenerationChangedPredicate)."""

resource_version_changed = _changed(lambda metadata: metadata.get("resourceVersion"))
"""Drop updates that changed nothing (controller-runtime ResourceVersionChangedPredicate)."""

labels_changed = _changed(lambda metadata: metadata.get("labels") or {})
"""Drop updates that left the labels alone (controller-runtime LabelChangedPredicate)."""

annotations_changed = _changed(lambda metadata: metadata.get("annotations") or {})
"""Drop updates that left the annotations alone (controller-runtime AnnotationChangedPredicate)."""


def matches_labels(selector: str | Mapping[str, str]) -> Predicate:
    """Pass objects whose labels match (controller-runtime LabelSelectorPredicate).

    The selector is a mapping of labels to values, or text as for kubectl: ``app=web,tier!=cache,env in (a,b),
    !canary``. Raises ConfigError for text that is none.
    """
    matches = label_selector(selector)
    return Predicate(lambda event: matches(event.labels))


def _fields(path: object) -> list[str]:
    text = path if isinstance(path, str) else ""
    fields = text.split(".")
    if fields[:2] in (["metadata", "labels"], ["metadata", "annotations"]):
        fields = text.split(".", 2)  # these have names with dots
    if not all(fields) or set("[]*$").intersection(text):
        raise ConfigError(f'bad path {path!r:.80} of changed(). Give field names, as "status.phase".')
    if fields[0] == "metadata" and (len(fields) == 1 or fields[1] not in Metadata.__annotations__):
        kept = ", ".join(sorted(Metadata.__annotations__))
        raise ConfigError(f"bad path {path!r:.80} of changed(): of metadata are kept {kept}.")
    return fields


def _part(fields: Iterable[str], obj: Any) -> Any:
    way: list[str] = []
    for field in fields:
        if obj is None:
            return None
        if not isinstance(obj, Mapping):
            raise ConfigError(
                f'changed("{".".join((*way, field))}") leads into a {type(obj).__name__}. '
                f'Compare it whole: changed("{".".join(way)}").'
            )
        way.append(field)
        obj = obj.get(field)
    return obj
