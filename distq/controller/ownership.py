"""Owner references and finalizers of plain objects (controller-runtime ``controllerutil``)."""

from typing import Any

from distq.errors import ConfigError

Object = dict[str, Any]


def set_controller_reference(owner: Object, obj: Object) -> None:
    """Make ``owner`` the controller of ``obj``, so that Owns maps it back and deletion follows the owner.

    Raises ConfigError if another controller owns the object, or the owner is in another namespace.
    Source: controller-runtime controllerutil.SetControllerReference.
    """
    reference = _reference(owner)
    _require_reach(owner, obj)
    metadata = obj.setdefault("metadata", {})
    references = metadata.get("ownerReferences") or []
    for other in references:
        if other.get("controller") and not _same_owner(other, reference):
            raise ConfigError(
                f"cannot own {_describe(obj)}: {other.get('kind')} {other.get('name')} controls it already. "
                "Use another name."
            )
    kept = [reference if _same_owner(other, reference) else other for other in references]
    metadata["ownerReferences"] = kept if reference in kept else [*kept, reference]


def owned_by(obj: Object, owner: Object) -> bool:
    """Return whether the owner is the controller of the object: this very one, no earlier one of its name.

    Source: apimachinery metav1.IsControlledBy.
    """
    uid = _reference(owner)["uid"]
    controller = controller_of(obj)
    return controller is not None and controller.get("uid") == uid


def controller_of(obj: Object) -> Object | None:
    """Return a copy of the owner reference of the object's controller, None if it has no controller.

    Source: apimachinery metav1.GetControllerOf.
    """
    references = obj.get("metadata", {}).get("ownerReferences") or []
    return next((dict(each) for each in references if each.get("controller")), None)


def add_finalizer(obj: Object, name: str) -> bool:
    """Add a finalizer; return whether it was absent (controllerutil.AddFinalizer)."""
    finalizers = obj.setdefault("metadata", {}).setdefault("finalizers", [])
    if name in finalizers:
        return False
    finalizers.append(name)
    return True


def remove_finalizer(obj: Object, name: str) -> bool:
    """Remove a finalizer; return whether it was there (controllerutil.RemoveFinalizer)."""
    metadata = obj.get("metadata", {})
    finalizers = metadata.get("finalizers") or []
    if name not in finalizers:
        return False
    metadata["finalizers"] = [finalizer for finalizer in finalizers if finalizer != name]
    return True


def _reference(owner: Object) -> Object:
    metadata = owner.get("metadata", {})
    try:
        return {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    except KeyError as error:
        raise ConfigError(
            f"bad owner: it has no {error.args[0]}. Pass the object as the API server gave it."
        ) from None


def _require_reach(owner: Object, obj: Object) -> None:
    """Refuse an owner in another namespace: the garbage collector would take it for gone and delete."""
    owner_namespace = owner["metadata"].get("namespace")
    namespace = obj.get("metadata", {}).get("namespace")
    if owner_namespace and owner_namespace != namespace:
        where = f"in namespace {namespace}" if namespace else "cluster-scoped, or names no namespace"
        raise ConfigError(
            f"cannot own {_describe(obj)}: it is {where}, its owner in {owner_namespace}. "
            "Use the owner's namespace."
        )


def _same_owner(one: Object, other: Object) -> bool:
    """Owners are the same by group, kind and name, in any version (as upstream compares)."""
    return _group(one) == _group(other) and all(one.get(key) == other.get(key) for key in ("kind", "name"))


def _group(reference: Object) -> str:
    return str(reference.get("apiVersion", "")).rpartition("/")[0]


def _describe(obj: Object) -> str:
    metadata = obj.get("metadata", {})
    name = "/".join(part for part in (metadata.get("namespace"), metadata.get("name")) if part)
    return f"{obj.get('kind', 'object')} {name}"
