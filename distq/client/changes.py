"""Changes of an object as it is now: differences are written, and tried again after a Conflict.

Its public functions are methods of ``Client``.
"""

import copy
import inspect
import random
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from distq.client.conditions import status_as_read
from distq.client.error_mapping import missing_object
from distq.client.objects import Object, is_same, key_of, metadata, resource_text, title
from distq.errors import ConfigError, Conflict, NotFound

if TYPE_CHECKING:
    from distq.client.client import Client

Change: TypeAlias = Callable[[Object], object]
"""Changes an object in place."""

Written: TypeAlias = Literal["created", "updated", "unchanged"]
"""The result of a write. Source: controllerutil.OperationResult."""


class CachedReader(Protocol):
    """The source of a change's first read instead of a GET: a ``distq.informer.Lister``."""

    @property
    def is_whole(self) -> bool:
        """Return whether objects have all fields that the API server has, managedFields apart."""

    def get(self, key: str) -> Object | None:
        """Return the object of a key; None where there is none."""


ATTEMPTS, INTERVAL = 5, 0.01
"""Seconds between two attempts, up to a tenth more. Source: client-go retry.DefaultRetry."""

Value = TypeVar("Value")


def modify(
    client: "Client",
    resource: str,
    key: str,
    change: Change,
    *,
    status: bool = False,
    lister: CachedReader | None = None,
) -> Object:
    """Read the object, let ``change`` change it in place, and return it as stored; NotFound without one.

    Nothing is written where nothing differs. After a Conflict it is read and changed again,
    5 times in all; the last Conflict is raised. ``status`` writes the status alone; a change of a
    status that is a subresource is a ConfigError without it. With a ``lister`` of the resource, the first
    read is of its cache; if the cache is behind, or has no such object, the API server is read as without
    it. ConfigError for a lister that leaves out fields. Source: client-go retry.RetryOnConflict.
    """

    def attempt(existing: Object | None) -> Object:
        if existing is None:
            raise _gone(f"{resource} {key}", "modify")
        return _replace(client, existing, _changed(existing, change), status=status)

    return _from_cache_first(client, resource, key, lister, attempt)


def create_or_update(
    client: "Client", obj: Object, change: Change, *, lister: CachedReader | None = None
) -> tuple[Object, Written]:
    """Let ``change`` change the stored object in place, or else ``obj``; write differences.

    Returns the object as stored, and created, updated or unchanged. Of a stored object ``obj`` gives only
    the name. Repeated as ``modify`` is; with a ``lister``, as there, an object that its cache lacks is
    created without a read. Source: controller-runtime controllerutil.CreateOrUpdate.
    """

    def attempt(existing: Object | None) -> tuple[Object, Written]:
        if existing is None:
            return client.create(_changed(obj, change)), "created"
        stored = _replace(client, existing, _changed(existing, change), status=False)
        return stored, "unchanged" if stored is existing else "updated"

    return _from_cache_first(client, resource_text(obj), key_of(obj), lister, attempt)


def _from_cache_first(
    client: "Client",
    resource: str,
    key: str,
    lister: CachedReader | None,
    attempt: Callable[[Object | None], Value],
) -> Value:
    """Return the attempt's result with the cached object, or else with that of the API server."""
    if lister is not None:
        cached = _cached(lister, resource, key)
        try:
            return attempt(cached)
        except Conflict:  # the cache is behind: the object has changed, or was created meanwhile
            pass
        except NotFound as error:
            if not missing_object(error):  # else it is gone, or ``modify`` found none in the cache
                raise
    return _again_on_conflict(lambda: attempt(client.get(resource, key)))


def _cached(lister: CachedReader, resource: str, key: str) -> Object | None:
    """Return a lister's object; ConfigError where a write would lose its fields, or be of another kind."""
    if not lister.is_whole:
        raise ConfigError(
            f"bad lister of {resource}: its cache lacks fields, by a transform or metadata_only, and a write "
            "would remove them. Leave the lister out."
        )
    found = lister.get(key)
    if found is not None and resource_text(found) != resource:
        raise ConfigError(
            f"bad lister of {resource}: it has {resource_text(found)}. Give that of {resource}."
        )
    return found


def patch_status(client: "Client", obj: Object, status: Mapping[str, Any]) -> Object:
    """Make these fields of the object's status so, and return it as stored; None removes a field.

    ``obj`` is the object as it was read, conditions set in it since then apart: where its status had all
    of it already, but for zeros that the server does not keep, nothing is asked and ``obj`` returned.
    Lists, conditions above all, are replaced whole, and so a Conflict where the object has changed since.
    """
    zeros = client._dropped_zeros  # noqa: SLF001 - of its methods
    read = status_as_read(obj)
    if not isinstance(status, Mapping):
        raise ConfigError(f"bad status of {title(obj)}: {status!r:.80} is no dict. Give the fields to set.")
    if status is read:
        raise ConfigError(
            f"bad status of {title(obj)}: it is the object's own, so no change of it can be seen. "
            "Give the fields to set in a new dict."
        )
    resource = resource_text(obj)
    if not _difference(read, zeros.without(resource, status, read)):
        return obj
    difference = _difference(read, status)
    version = metadata(obj).get("resourceVersion")
    # a merge patch replaces lists whole, other writers' entries included
    locked = {"metadata": {"resourceVersion": version}} if version and _has_list(difference) else {}
    stored = client.patch(resource, key_of(obj), {**locked, "status": difference}, status=True)
    zeros.learn(resource, difference, stored.get("status") or {})
    return stored


def add_finalizer(client: "Client", obj: Object, name: str) -> Object:
    """Add a finalizer to an object that was read, and return it as stored; NotFound when it is gone.

    Nothing is written where ``obj`` has it. The object may have changed since it was read.
    """
    return _patch_finalizers(
        client, obj, lambda present: present if name in present else [*present, name], "add a finalizer to"
    )


def remove_finalizer(client: "Client", obj: Object, name: str) -> bool:
    """Remove a finalizer from an object that was read; return False when it was gone, or the object is.

    Nothing is written where ``obj`` has none. The object may have changed since it was read.
    """
    try:
        stored = _patch_finalizers(
            client, obj, lambda present: [each for each in present if each != name], "remove a finalizer from"
        )
    except NotFound as error:
        if missing_object(error):
            return False
        raise
    return stored is not obj


def _patch_finalizers(
    client: "Client", obj: Object, wanted: Callable[[list[str]], list[str]], what: str
) -> Object:
    """Write the finalizers of this very object; NotFound where it is gone, though another has its name."""
    resource, key, uid = resource_text(obj), key_of(obj), metadata(obj).get("uid")
    if not metadata(obj).get("resourceVersion"):
        raise ConfigError(f"cannot {what} {title(obj)}: no resourceVersion. Pass the object as it was read.")
    newest = obj

    def attempt() -> Object:
        nonlocal newest
        present = metadata(newest).get("finalizers") or []
        if (finalizers := wanted(present)) == present:
            return newest
        version = metadata(newest)["resourceVersion"]
        # of this version alone: the patch replaces the list whole, other writers' finalizers included
        patch = {"metadata": {"resourceVersion": version, "finalizers": finalizers}}
        try:
            return client.patch(resource, key, patch)
        except Conflict:
            found = client.get(resource, key)
            if found is None or metadata(found).get("uid") != uid:
                raise _gone(title(obj), what) from None
            newest = found
            raise  # to be called again, with the newest

    return _again_on_conflict(attempt)


def _again_on_conflict(attempt: Callable[[], Value]) -> Value:
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt()
        except Conflict:
            time.sleep(INTERVAL * random.uniform(1.0, 1.1))
    return attempt()


def _changed(existing: Object, change: Change) -> Object:
    """Return a changed copy; ConfigError where the change made another object of it, or none."""
    wanted = copy.deepcopy(existing)
    returned = change(wanted)
    if inspect.iscoroutine(returned):
        returned.close()  # else Python warns that it was never awaited
    if isinstance(returned, Mapping) or inspect.isawaitable(returned):
        raise ConfigError(
            f"bad change of {title(existing)}: it returned {type(returned).__name__}. "
            "Change the object in place, by a plain function."
        )
    if _identity(wanted) != _identity(existing):
        raise ConfigError(
            f"bad change of {title(existing)}: it made it another object, or one of another version. "
            "Keep apiVersion, kind, name, namespace, uid and resourceVersion."
        )
    return wanted


def _identity(obj: Object) -> tuple[object, ...]:
    about = metadata(obj)
    return resource_text(obj), key_of(obj), about.get("uid"), about.get("resourceVersion")


def _replace(client: "Client", existing: Object, wanted: Object, *, status: bool) -> Object:
    if status and not is_same({**existing, "status": None}, {**wanted, "status": None}):
        raise ConfigError(
            f"bad change of {title(existing)}: status=True writes the status alone. "
            "Change the rest by a call without it."
        )
    if is_same(existing, wanted):
        return existing
    # the API server would leave the status as it was, without an error
    changes_status = not is_same(existing.get("status"), wanted.get("status"))
    if changes_status and not status and client.resolve(resource_text(existing)).has_status:
        raise ConfigError(
            f"bad change of {title(existing)}: its status is a subresource, apart from all else. "
            "Change that by modify with status=True."
        )
    return client.update(wanted, status=status)


def _gone(what: str, act: str) -> NotFound:
    answer = {"details": {"name": what}}  # shows that only the object is missing, see missing_object
    message = f"cannot {act} {what}: there is none. Read it again."
    return NotFound(message, status=404, reason="NotFound", answer=answer)


def _difference(existing: Mapping[str, Any], wanted: Mapping[str, Any]) -> Object:
    """Return the RFC 7396 patch that gives the one the other's fields; None removes a field."""
    difference: Object = {}
    for name, value in wanted.items():
        before = existing.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if inner := _difference(before, value):
                difference[name] = inner
        elif name in existing if value is None else not is_same(before, value):
            difference[name] = value
    return difference


def _has_list(content: Any) -> bool:
    if isinstance(content, Mapping):
        return any(_has_list(value) for value in content.values())
    return isinstance(content, list | tuple)
