"""The zeros that an API server does not keep: it often leaves out values that are 0, false or empty.

Go's ``omitempty`` drops them by the type of the field, which no schema has. So a server's answers teach it: a
zero that was sent, and is absent from the stored object, is no difference from then on.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Path = tuple[str, ...]
"""Names of fields from the status on; the positions of lists are one name."""

_ITEMS = "[]"


class DroppedZeros:
    """The fields of each resource whose zeros were sent and not kept."""

    def __init__(self) -> None:
        self._paths: set[tuple[str, Path]] = set()
        """By resource; names alone, so at most those of its schema."""

    def learn(self, resource: str, sent: Any, stored: Any) -> None:
        """Remember the zeros that were sent and are not in the stored object."""
        self._paths.update((resource, path) for path in _missing_zeros(sent, stored))

    def without(self, resource: str, wanted: Any, before: Any, path: Path = ()) -> Any:
        """Return the wanted value without zeros that the server would drop, where none was before."""
        if isinstance(wanted, Mapping) and isinstance(before, Mapping):
            return {
                name: self.without(resource, value, before.get(name), (*path, name))
                for name, value in wanted.items()
                # a zero in the place of another value is a difference, also where it was dropped before
                if name in before or not _is_zero(value) or (resource, (*path, name)) not in self._paths
            }
        if _are_parallel(wanted, before):
            pairs = zip(wanted, before, strict=True)
            return [self.without(resource, value, old, (*path, _ITEMS)) for value, old in pairs]
        return wanted


def _missing_zeros(sent: Any, stored: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(sent, Mapping) and isinstance(stored, Mapping):
        for name, value in sent.items():
            if name in stored:
                yield from _missing_zeros(value, stored[name], (*path, name))
            elif _is_zero(value):
                yield (*path, name)
    elif _are_parallel(sent, stored):
        for value, found in zip(sent, stored, strict=True):
            yield from _missing_zeros(value, found, (*path, _ITEMS))


def _is_zero(value: Any) -> bool:
    return value is not None and not value  # None removes a field


def _are_parallel(one: Any, other: Any) -> bool:
    return isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other)
