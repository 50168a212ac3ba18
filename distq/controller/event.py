"""A change of a watched object, as predicates and mapping functions see it."""

from typing import Any, Literal, NoReturn

from distq.client.objects import Object
from distq.errors import ConfigError
from distq.informer.objects import Metadata, key_of
from distq.informer.stored_object import StoredObject
from distq.informer.wire import RawObject

EventType = Literal["create", "update", "delete", "generic"]


class OldMetadata(dict[str, Any]):
    """The metadata of an object that an update replaced; to read any other part is an error.

    The other parts would always be missing, and a comparison with them would filter nothing, or everything.
    """

    def __missing__(self, name: str) -> NoReturn:
        raise ConfigError(
            f"event.old has no {name}: its metadata alone is kept. Add cached=True to the watch, and let the "
            'predicate say that it compares="object".'
        )

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ARG002 - there is no default
        """Return a part; raise ConfigError for all but the metadata."""
        return self[name]


class Event:
    """A change of one object (controller-runtime ``event.TypedCreateEvent`` and its siblings).

    ``type`` is create, update, delete or generic. ``object`` is the whole object, for a delete its last
    state; it is decoded when first read. ``old`` is the object that an update replaced, and None if that
    is unknown: it is kept only for predicates that say so. For one that compares objects it is the whole
    object without managedFields, for others its metadata alone: to read more raises ConfigError.
    ``in_initial_list`` is true if the object came with a list.
    """

    __slots__ = ("_object", "_old", "in_initial_list", "type")

    def __init__(
        self,
        type: EventType,  # noqa: A002 - the API server's word
        object: Object | RawObject,  # noqa: A002 - the API server's word
        old: Object | StoredObject | None = None,
        in_initial_list: bool = False,
    ) -> None:
        self.type = type
        self._old = old
        self.in_initial_list = in_initial_list
        self._object = object

    @property
    def object(self) -> Object:
        """Return the whole object."""
        if not isinstance(self._object, dict):
            self._object = self._object.decode()
        return self._object

    @property
    def old(self) -> Object | None:
        """Return the object that an update replaced, None if that is unknown."""
        if isinstance(self._old, StoredObject):
            self._old = self._old.decode()
        return self._old

    @property
    def key(self) -> str:
        """Return the object's key, ``namespace/name``, or the name of a cluster-scoped one."""
        return key_of(self.metadata) if isinstance(self._object, dict) else self._object.key

    @property
    def metadata(self) -> Metadata:
        """Return the object's metadata, without managedFields until the object is decoded."""
        if isinstance(self._object, dict):
            metadata: Metadata = self._object["metadata"]
            return metadata
        return self._object.metadata

    @property
    def namespace(self) -> str | None:
        """Return the object's namespace, None for a cluster-scoped one."""
        return self.metadata.get("namespace") or None

    @property
    def name(self) -> str:
        """Return the object's name."""
        return self.metadata["name"]

    @property
    def labels(self) -> dict[str, str]:
        """Return the object's labels, empty without any."""
        return self.metadata.get("labels") or {}

    def __repr__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"Event({self.type} {name})"
