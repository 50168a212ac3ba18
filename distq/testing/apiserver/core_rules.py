"""What services, secrets and events have to hold.

Source: kubernetes pkg/apis/core/validation.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from distq.testing.apiserver.schema_validation import Cause

Fields = dict[str, Any]

_SECRET_KEYS: Mapping[str, str] = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/ssh-auth": "ssh-privatekey",
    "kubernetes.io/tls": "tls.crt tls.key",
}
"""What the data of a Secret of a type has to hold."""
_CREDENTIALS = ("password", "username")
"""Of these a Secret for basic authentication has to hold one."""
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_ACCOUNT = "kubernetes.io/service-account.name"


def service(spec: Fields, before: str) -> Iterator[Cause]:
    """Yield what is wrong with a Service: no ports, or some that nobody can tell apart."""
    if not spec.get("ports") and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        yield "FieldValueRequired", f"{before}ports", "Required value"
    ports, names, numbers = spec.get("ports", ()), set(), set()
    for index, port in enumerate(ports):
        path, name, number = f"{before}ports[{index}]", port.get("name"), (port["protocol"], port["port"])
        if not name and len(ports) > 1:
            yield "FieldValueRequired", f"{path}.name", "Required value"
        elif name and not _LABEL.fullmatch(name):
            yield "FieldValueInvalid", f"{path}.name", f'Invalid value: "{name}": {_LABEL_RULE}'
        elif name and name in names:
            yield "FieldValueDuplicate", f"{path}.name", f'Duplicate value: "{name}"'
        if number in numbers:
            yield "FieldValueDuplicate", path, f"Duplicate value: {_in_go(port)}"
        names.add(name)
        numbers.add(number)


def _in_go(port: Fields) -> str:
    """Return the port as the real server's message quotes it, by Go's names."""
    unset = {"AppProtocol": None, "Port": port["port"], "TargetPort": 0, "NodePort": 0}
    return msgspec.json.encode({"Name": "", "Protocol": port["protocol"], **unset}).decode()


def secret(content: Fields, _: str) -> Iterator[Cause]:
    """Yield the keys that a Secret of its type lacks."""
    kind, data = content.get("type", ""), content.get("data", {})
    missing = [key for key in _SECRET_KEYS.get(kind, "").split() if key not in data]
    if kind == "kubernetes.io/basic-auth" and not data.keys() & set(_CREDENTIALS):
        missing = [*_CREDENTIALS]
    for key in missing:
        yield "FieldValueRequired", f"data[{key}]", "Required value"
    annotations = content["metadata"].get("annotations", {})
    if kind == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT):
        yield "FieldValueRequired", f"metadata.annotations[{_ACCOUNT}]", "Required value"


def event(reference: str) -> Callable[[Fields, str], Iterator[Cause]]:
    """Return the rule that an event is in the namespace of what it is about, which the field names."""

    def rule(content: Fields, _: str) -> Iterator[Cause]:
        own, about = content["metadata"].get("namespace", ""), content.get(reference, {}).get("namespace", "")
        if content.get("eventTime"):
            fits = bool(about) or own in {"default", "kube-system"}
        else:
            fits = own == (about or "default")
        if not fits:
            message = f'Invalid value: "{about}": does not match event.namespace'
            yield "FieldValueInvalid", "involvedObject.namespace", message

    return rule
