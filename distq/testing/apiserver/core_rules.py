"""What secrets, events, volumes, limits and selectors have to hold.

Source: kubernetes pkg/apis/core/validation.
"""

from collections.abc import Iterator, Mapping

from distq.testing.apiserver import names, quantities
from distq.testing.apiserver.built_in import names_in, rules_of
from distq.testing.apiserver.causes import (
    Cause,
    Fields,
    Rule,
    duplicates,
    forbidden,
    misformed,
    misformed_labels,
    required,
    surplus,
    unsupported,
    wrong,
)
from distq.testing.apiserver.objects import finalizer_wrongs

_CREDENTIALS = ("password", "username")
"""Of these a Secret for basic authentication has to hold one."""
_ACCESS_MODES = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]
_LIMITED = {"Container", "PersistentVolumeClaim", "Pod"}
_AMOUNTS_OF_LIMITS = {"default", "defaultRequest", "max", "maxLimitRequestRatio", "min"}
_ACCOUNT = "kubernetes.io/service-account.name"


def _secret(content: Fields, _: str) -> Iterator[Cause]:
    """Yield the keys that a Secret of its type lacks."""
    kind, data = content.get("type", ""), content.get("data", {})
    needed = names_in(rules_of("core.v1.Secret")["keys"], kind)
    missing = [key for key in needed if key not in data]
    if kind == "kubernetes.io/basic-auth" and not data.keys() & set(_CREDENTIALS):
        missing = [*_CREDENTIALS]
    for key in missing:
        yield required(f"data[{key}]")
    annotations = content["metadata"].get("annotations", {})
    if kind == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        yield required(f"metadata.annotations[{_ACCOUNT}]")


def _event(reference: str) -> Rule:
    """Return the rule that an event is in the namespace of what it is about, which the field names."""

    def rule(content: Fields, _: str) -> Iterator[Cause]:
        own, about = content["metadata"].get("namespace", ""), content.get(reference, {}).get("namespace", "")
        if content.get("eventTime"):
            fits = bool(about) or own in {"default", "kube-system"}
        else:
            fits = own == (about or "default")
        if not fits:
            yield wrong("involvedObject.namespace", about, "does not match event.namespace")

    return rule


def _namespace(spec: Fields, before: str) -> Iterator[Cause]:
    for index, finalizer in enumerate(spec.get("finalizers", ())):
        yield from misformed(f"{before}finalizers[{index}]", finalizer, finalizer_wrongs)


def _access_modes(spec: Fields, before: str) -> Iterator[Cause]:
    for mode in spec.get("accessModes", ()):
        yield from unsupported(f"{before}accessModes", mode, _ACCESS_MODES)


def _volume(spec: Fields, before: str) -> Iterator[Cause]:
    yield from _access_modes(spec, before)
    sources = spec.keys() - names_in(rules_of("core.v1.PersistentVolumeSpec"), "not_a_source")
    if not sources:
        yield required(before.rstrip("."), "must specify a volume type")
    yield from surplus(before, sources - {"flexVolume"}, "volume type")  # which the server does not count
    yield from _storage(spec.get("capacity", {}), f"{before}capacity")


def _claim(spec: Fields, before: str) -> Iterator[Cause]:
    yield from _access_modes(spec, before)
    requests = spec["resources"].get("requests", {})
    if "storage" not in requests:
        yield required(f"{before}resources[storage]")
    yield from _storage(requests, f"{before}resources")


def _storage(amounts: Mapping[str, str], path: str) -> Iterator[Cause]:
    if quantities.amount(amounts.get("storage", "1")) <= 0:
        yield wrong(f"{path}[storage]", amounts["storage"], "must be greater than zero")


def _limit_range(spec: Fields, before: str) -> Iterator[Cause]:
    limits = spec.get("limits") or ()
    yield from duplicates((f"{before}limits[{i}].type", each["type"]) for i, each in enumerate(limits))
    for index, each in enumerate(limits):
        yield from misformed(f"{before}limits[{index}].type", each["type"], _type_of_limit)
        form = names.container_resource if each["type"] in {"Container", "Pod"} else names.resource
        for field in _AMOUNTS_OF_LIMITS & each.keys():
            for name in each[field]:
                yield from misformed(f"{before}limits[{index}].{field}[{name}]", name, form)


def _type_of_limit(name: str) -> list[str]:
    wrongs = names.qualified(name)
    if not wrongs and "/" not in name and name not in _LIMITED:
        return ["must be a standard limit type or fully qualified"]
    return wrongs


def _quota(spec: Fields, before: str) -> Iterator[Cause]:
    for name, quantity in spec.get("hard", {}).items():
        yield from misformed(f"{before}hard[{name}]", name, names.quota_resource)
        if quantities.amount(quantity) < 0:
            yield wrong(f"{before}hard[{name}]", quantity, "must be greater than or equal to 0")
        if (name in names.COUNTED or name.startswith("count/")) and quantities.amount(quantity) % 1:
            yield wrong(f"{before}hard[{name}]", quantity, "must be an integer")


def _label_selector(selector: Fields, before: str) -> Iterator[Cause]:
    yield from misformed_labels(f"{before}matchLabels", selector.get("matchLabels", {}))
    for index, each in enumerate(selector.get("matchExpressions", ())):
        yield from _expression(each, f"{before}matchExpressions[{index}]")


def _expression(expression: Fields, path: str) -> Iterator[Cause]:
    values, operator = expression.get("values"), expression["operator"]
    if operator in {"In", "NotIn"}:
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(f"{path}.values", rule)
    else:
        yield wrong(f"{path}.operator", operator, "not a valid selector operator")
    yield from misformed(f"{path}.key", expression["key"], names.label_key)
    for index, value in enumerate(values or ()):
        yield from misformed(f"{path}.values[{index}]", value, names.label_value)


RULES: Mapping[str, Rule] = {
    "core.v1.Event": _event("involvedObject"),
    "core.v1.LimitRangeSpec": _limit_range,
    "core.v1.NamespaceSpec": _namespace,
    "core.v1.PersistentVolumeClaimSpec": _claim,
    "core.v1.PersistentVolumeSpec": _volume,
    "core.v1.ResourceQuotaSpec": _quota,
    "core.v1.Secret": _secret,
    "events.v1.Event": _event("regarding"),
    "meta.v1.LabelSelector": _label_selector,
}
