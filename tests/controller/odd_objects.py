"""Objects and functions of every oddity, and a resource that lists and watches such objects."""

import asyncio
import builtins
import json
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from distq.client.objects import Object
from distq.client.resources import Resource
from distq.errors import ConfigError, Expired, InvalidKey, LeaseLost, NotFound
from distq.informer.sink import PositionMoved
from distq.informer.wire import Page, decode_page
from distq.redisio.limits import PAGE_SIZE
from distq.testing.fake_list_watch import FakeListWatch

RESOURCE = "v1/Pod"
NAMESPACE = "prod"
DEEP = "a text that stands for three thousand levels"
LONE = "a text that stands for half a character"
_PLACES = (
    (b'"%b"' % DEEP.encode(), b'{"a":' * 3000 + b"[]" + b"}" * 3000),
    (b'"%b"' % LONE.encode(), rb'"\ud800"'),
)


def is_good(obj: object) -> bool:
    """Return whether an object is one of those that nothing fails on."""
    try:
        return bool(obj["metadata"]["name"].startswith("good"))  # type: ignore[index]
    except Exception:  # noqa: BLE001 - then it is not
        return False


def sample(name: object) -> Object:
    """Return an object that has all that a stream looks at."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": "u", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": "1",
            "generation": 1,
            "labels": {"app": "web"},
            "annotations": {"note": "x"},
            "ownerReferences": [owner],
            "finalizers": ["example.com/f"],
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"targets": ["one", "two"]},
        "status": {"phase": "Running"},
    }


# Objects

_names = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["a\nb", "a\0b", "a b", "..", "a/b", "ü" * 600, "x" * 1018, "x" * 1019, "x" * 2000]),
)
_values: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=10),
    st.sampled_from([DEEP, LONE, [], {}, [[]], [{}], {"": None}, [None], "x" * 1_400_000]),
)


def _paths(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in items:
        yield (*path, name)
        yield from _paths(part, (*path, name))


_PATHS = [path for path in _paths(sample("odd")) if len(path) > 1 or path == ("spec",)]
"""Not the metadata and its version: without these an event cannot be passed, and a list is asked for."""


@st.composite
def odd_objects(draw: st.DrawFn) -> Object:
    """Draw an object that is odd in some places, or in none."""
    obj = sample(draw(_names))
    for path in draw(st.lists(st.sampled_from(_PATHS), max_size=3)):
        inner: Any = obj
        for step in path[:-1]:
            inner = inner[step] if _has(inner, step) else None
        if isinstance(inner, dict) or _has(inner, path[-1]):
            inner[path[-1]] = draw(_values)
    return obj


def _has(value: object, step: object) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and step < len(value)


# What a function of the program raises


class Silent(BaseException):
    """An exception that cannot even be written down."""

    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


def _builtins() -> Iterator[BaseException]:
    arguments = {
        "UnicodeDecodeError": ("utf-8", b"\xff", 0, 1, "bad"),
        "UnicodeEncodeError": ("utf-8", "x", 0, 1, "bad"),
        "UnicodeTranslateError": ("x", 0, 1, "bad"),
        "BaseExceptionGroup": ("several", [SystemExit(0)]),
        "ExceptionGroup": ("several", [ValueError("a bug")]),
    }
    for kind in vars(builtins).values():
        if isinstance(kind, type) and issubclass(kind, BaseException):
            yield kind(*arguments.get(kind.__name__, ()))


ERRORS: list[BaseException] = [
    *_builtins(),
    asyncio.CancelledError(),
    Silent(),
    ValueError("\0\n" * 1000),
    ConfigError("the program's own"),
    InvalidKey("the program's own"),
    LeaseLost("of another lease"),
    PositionMoved("of nothing"),
    NotFound("no such object", status=404),
    Expired("too old", status=410),
]
ANSWERS: list[Any] = [None, 5, "text", [None], ["a\nb"], ["x" * 2000], [""], [[]], {"a": 1}, ["\ud800"]]
"""What a function had better not return; some may."""


def failing(how: object, answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that answers for good objects, and for others raises, or returns what is odd."""

    def function(given: Any) -> Any:
        obj = given if isinstance(given, dict) else given.object
        if how is not None and not is_good(obj):
            if isinstance(how, BaseException):
                raise how
            return how
        return answer(given)

    return function


# A resource


class OddListWatch(FakeListWatch):
    """A resource that takes any object: each has a slot, in place of a key."""

    def put(self, slot: int, obj: Object) -> int:
        """Create or change the object of a slot; return the version."""
        with self._lock:
            kind = "MODIFIED" if str(slot) in self._objects else "ADDED"
            return self._happens(kind, str(slot), obj)

    def drop(self, slot: int) -> None:
        """Delete the object of a slot, if there is one."""
        with self._lock:
            if (obj := self._objects.pop(str(slot), None)) is not None:
                self._happens("DELETED", str(slot), obj)

    def page(self, next_token: str = "", *, limit: int = PAGE_SIZE) -> Page:  # noqa: ARG002 - one has all
        """Return all objects."""
        self._answer("list")
        with self._lock:
            body = {"metadata": {"resourceVersion": str(self._version)}, "items": [*self._objects.values()]}
        return decode_page(_written(body), Resource("v1", "Pod", "pods", namespaced=True))

    def _happens(self, kind: str, slot: str, obj: Object) -> int:
        self._version += 1
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            was = metadata.get("resourceVersion")
            version = was if was is not None and not str(was).isdecimal() else str(self._version)
            obj = {**obj, "metadata": {**metadata, "resourceVersion": version}}
        if kind != "DELETED":
            self._objects[slot] = obj
        line = _written({"type": kind, "object": obj})
        self._history.append((self._version, line))
        for watch in self._watches:
            watch.put(line)
        return self._version


def _written(value: object) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    for place, odd in _PLACES:
        text = text.replace(place, odd)
    return text
