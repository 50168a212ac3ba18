"""The command of kubectl that shows the object of an item."""

import re

from distq.dns1123 import DNS1123_LABEL, DNS1123_SUBDOMAIN

_RESOURCE = re.compile(rf"(?:({DNS1123_SUBDOMAIN.pattern})/)?(v[a-z0-9]+)/([A-Z][A-Za-z0-9]*)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}")
"""Names that a shell takes as they are. Objects have no others, but for a few roles."""


def get_object(resource: str | None, key: str) -> str | None:
    """Return ``kubectl get KIND.VERSION.GROUP -n NAMESPACE NAME``; None for a key that names no object.

    kubectl takes a kind in the place of a plural name (source: kubectl, cli-runtime resource.Builder).
    """
    kind = _RESOURCE.fullmatch(resource or "")
    namespace, slash, name = key.rpartition("/")
    if not kind or not _NAME.fullmatch(name) or (slash and not DNS1123_LABEL.fullmatch(namespace)):
        return None
    full = f"{kind[3]}.{kind[2]}.{kind[1]}" if kind[1] else kind[3]
    return f"kubectl get {full} {f'-n {namespace} ' if namespace else ''}{name}"
