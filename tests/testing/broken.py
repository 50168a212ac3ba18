"""Ways to break an object: each field of it left out, emptied, or given what it cannot be."""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

Step = str | int
Change = Callable[[Any, Step], None]


def broken(content: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what was done, and the object after it."""
    for path, value in _places(content):
        for name, change in _changes(value):
            changed = deepcopy(content)
            holder: Any = changed
            for step in path[:-1]:
                holder = holder[step]
            change(holder, path[-1])
            yield f"{name} {'.'.join(map(str, path))}", changed


def _places(value: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[tuple[Step, ...], Any]]:
    if path:
        yield path, value
    inner: Iterable[tuple[Step, Any]] = ()
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
    for step, each in inner:
        yield from _places(each, (*path, step))


def _changes(value: Any) -> Iterator[tuple[str, Change]]:
    yield "without", lambda holder, step: holder.pop(step)
    other: dict[type, list[Any]] = {
        str: [1, ""],
        int: ["x", -1, 70000],
        bool: ["x"],
        list: ["x", []],
        dict: ["x", {}],
    }
    for each in other.get(type(value), ()):
        yield f"{each!r} for", _setter(each)


def _setter(value: Any) -> Change:
    def change(holder: Any, step: Step) -> None:
        holder[step] = value

    return change
