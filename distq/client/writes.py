"""Observers of each write that the API server has answered, by any Client of this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from distq.client.objects import Object, key_of, metadata
from distq.client.resources import Resource

if TYPE_CHECKING:
    from distq.client.client import Client


class Write(NamedTuple):
    """A write that was answered: its Client, resource and key, the object as stored; None after deletion.

    ``answer`` is the object's JSON, as it came.
    """

    client: "Client"
    resource: Resource
    key: str
    obj: Object | None
    answer: bytes


Observer = Callable[[Write], None]

_observers: list[Observer] = []


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Call ``observer`` with each write before its caller gets the answer; it must not raise."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def written(client: "Client", resource: Resource, obj: Object, answer: bytes) -> None:
    """Publish an object as the API server stored it; without a name none was stored."""
    about = metadata(obj) if _observers else {}
    if about.get("name"):
        _publish(Write(client, resource, key_of(obj), obj, answer))


def deleted(client: "Client", resource: Resource, key: str, obj: Object, answer: bytes) -> None:
    """Publish a deletion; an object that a finalizer keeps is stored as the API server answered."""
    _publish(Write(client, resource, key, obj if metadata(obj).get("finalizers") else None, answer))


def _publish(write: Write) -> None:
    for observer in tuple(_observers):  # a copy: other threads add and remove theirs
        observer(write)
