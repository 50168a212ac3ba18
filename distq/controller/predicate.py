"""Which events of a watch matter (controller-runtime pkg/predicate).

Predicates that compare with the old object let an event through when it is unknown, also when they are
negated: a reconcile too many is harmless, one too few is not. So they answer yes, no or "cannot tell".
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from distq.controller.event import Event
from distq.controller.functions import require_predicate
from distq.informer.selectors import label_selector


@dataclass(frozen=True)
class Predicate:
    """A test of events, combined with ``&``, ``|`` and ``~``.

    The test returns whether the event matters, or None where it cannot tell; then it passes. ``compares``
    means that it reads ``event.old``: only then the leader keeps the last metadata of every object.
    """

    test: Callable[[Event], bool | None]
    compares: bool = False

    def __call__(self, event: Event) -> bool:
        """Return whether the event passes."""
        return self.test(event) is not False

    def __and__(self, other: "Predicate | Callable[[Event], bool]") -> "Predicate":
        """Pass what both pass."""
        both = self, predicate_of(other)
        return Predicate(
            lambda event: _and(*(one.test(event) for one in both)), any(one.compares for one in both)
        )

    def __or__(self, other: "Predicate | Callable[[Event], bool]") -> "Predicate":
        """Pass what one of them passes."""
        return ~(~self & ~predicate_of(other))

    def __invert__(self) -> "Predicate":
        """Pass what this one does not, and what it cannot tell."""
        return Predicate(lambda event: _not(self.test(event)), self.compares)


EventTest = Predicate | Callable[[Event], bool]
"""What says whether an event matters: a Predicate, or a plain function."""


def predicate_of(test: EventTest) -> Predicate:
    """Return a function as a Predicate that does not compare."""
    if isinstance(test, Predicate):
        return test
    require_predicate(test)
    return Predicate(lambda event: bool(test(event)))


def all_of(tests: Iterable[EventTest]) -> Predicate:
    """Return the predicate that passes what all of them pass."""
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

    def test(event: Event) -> bool | None:
        if event.type != "update":
            return True
        if event.old is None:
            return None
        return bool(part(event.metadata) != part(event.old["metadata"]))

    return Predicate(test, compares=True)


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
