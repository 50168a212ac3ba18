"""Which keys an event means (controller-runtime pkg/handler).

Here, and only here, a key of the leader's path is validated. A name of an object or owner that is a bad key
is left out, since API servers allow any name for some; a bad key of a user's function is an error. From here
on keys are bytes, as ``validate_key`` returns them.
"""

import logging
from collections.abc import Callable, Iterable

from distq.client.client import Client
from distq.client.objects import Object
from distq.controller.event import Event
from distq.controller.watches import Owns, ResourceWatch, Watches, group_kind, require_list
from distq.errors import InvalidKey
from distq.informer.objects import OwnerReference
from distq.redisio.keys import validate_key

logger = logging.getLogger(__name__)

KeysOf = Callable[[Event], list[bytes]]


def mapped_keys(watch: ResourceWatch, client: Client, owned_by: str) -> KeysOf | None:
    """Return the function from an event to a watch's keys, None if they are the objects' own.

    ``owned_by`` is the resource that Owns looks for. Raises NotFound if the API server does not know it, and
    ApiError.
    """
    if isinstance(watch, Watches):
        return function_keys(watch.keys)
    if isinstance(watch, Owns):
        namespaced = client.resolve(owned_by).namespaced
        return owner_keys(owned_by, namespaced=namespaced, only_controller=watch.only_controller)
    return None


def owner_keys(owner: str, *, namespaced: bool, only_controller: bool) -> KeysOf:
    """Return the function from an object to its owners of one group and kind, in any version.

    A text that cannot be an object's name is left out. Source: controller-runtime EnqueueRequestForOwner.
    """
    wanted = group_kind(owner)

    def keys(event: Event) -> list[bytes]:
        metadata = event.metadata
        owners = metadata.get("ownerReferences") or []
        names = [one["name"] for one in owners if _is(one, wanted, only_controller)]
        namespace = metadata.get("namespace") if namespaced else None
        prefix = f"{namespace}/" if namespace else ""
        return [key for name in names for key in _owner_key(prefix, name, event)]

    return keys


def function_keys(function: Callable[[Object], Iterable[str]]) -> KeysOf:
    """Return the user's function, of an event; the function raises InvalidKey for a bad key."""
    return lambda event: [validate_key(key) for key in require_list(function(event.object))]


def key_of_name(name: str) -> list[bytes]:
    """Return the object's name as a key, none if it cannot be one.

    Source: controller-runtime EnqueueRequestForObject.
    """
    try:
        return [validate_key(name)]
    except InvalidKey:  # API servers let a Role, for example, have any name; one must not stop the others
        return []


def _is(owner: OwnerReference, wanted: tuple[str, str], only_controller: bool) -> bool:
    if only_controller and not owner.get("controller"):
        return False
    group, slash, _ = owner.get("apiVersion", "").rpartition("/")
    return (group if slash else "", owner.get("kind", "")) == wanted


def _owner_key(prefix: str, name: str, owned: Event) -> list[bytes]:
    """Return an owner's key, none if it cannot exist; API servers take any text for one in a reference.

    Source: apimachinery IsValidPathSegmentName.
    """
    try:
        key = validate_key(prefix + name)
    except InvalidKey as error:  # not raised: each user that writes owned objects could stop a stream
        logger.warning("%r: its owner cannot exist: %s", owned, error)
        return []
    if name in {".", ".."} or "/" in name or "%" in name:
        logger.warning("%r: its owner cannot exist: %r is no name", owned, name)
        return []
    return [key]
