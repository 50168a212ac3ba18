"""The forms that names have, and the server's words for what is not of a form.

Each function returns what is wrong with a text; nothing, where it is right.
Source: apimachinery pkg/util/validation, pkg/api/validate/content and pkg/api/validation/path.
"""

import re
from collections.abc import Callable

from distq.testing.apiserver.built_in import built_in, names_in

Form = Callable[[str], list[str]]

_PREFIX_RULE = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


def _form(name: str) -> Form:
    pattern, rule, most = (built_in()["forms"][name][key] for key in ("pattern", "rule", "most"))
    compiled = re.compile(pattern)

    def wrongs(text: str) -> list[str]:
        too_long = [f"must be no more than {most} bytes"] * (len(text) > most)
        return too_long + [rule] * (compiled.fullmatch(text) is None)

    return wrongs


label, subdomain, dns_1035_label = _form("label"), _form("subdomain"), _form("dns_1035_label")
label_value, _name_part = _form("label_value"), _form("name_part")


def qualified(text: str, called: str = "a qualified name") -> list[str]:
    """Look at a name with an optional domain before it, such as ``example.com/name``."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [f"{called} {built_in()['forms']['name_part']['rule']}{_PREFIX_RULE}"]
    wrongs = [f"prefix part {wrong}" for wrong in (subdomain(prefix) if prefix else ["must be non-empty"])]
    wrongs = wrongs if slash else []
    if not name:
        wrongs.append("name part must be non-empty")
    return wrongs + [f"name part {wrong}" for wrong in _name_part(name)]


def label_key(text: str) -> list[str]:
    """Look at the key of a label."""
    return qualified(text, "a valid label key")


def path_segment(text: str) -> list[str]:
    """Look at a name of which only has to hold that a URL can have it."""
    if text in {".", ".."}:
        return [f"may not be '{text}'"]
    return [f"may not contain '{letter}'" for letter in "/%" if letter in text]


def port_name(text: str) -> list[str]:
    """Look at the name of a container's port."""
    rules = (
        (len(text) > 15, "must be no more than 15 characters"),
        (
            not re.fullmatch("[-a-z0-9]+", text),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (not re.search("[a-z]", text), "must contain at least one letter (a-z)"),
        ("--" in text, "must not contain consecutive hyphens"),
        (text.startswith("-") or text.endswith("-"), "must not begin or end with a hyphen"),
    )
    return [rule for is_broken, rule in rules if is_broken]


_OF_CONTAINERS = {"cpu", "ephemeral-storage", "memory"}
COUNTED = {*names_in(built_in()["resources"], "counted")}
_OF_QUOTAS = {*_OF_CONTAINERS, *COUNTED, *names_in(built_in()["resources"], "of_quotas")}


def resource(text: str) -> list[str]:
    """Look at the name of what there are amounts of, such as ``cpu`` or ``example.com/gpu``."""
    unknown = not _is_standard(text, _OF_QUOTAS | {"storage"})
    return qualified(text) + ["must be a standard resource type or fully qualified"] * unknown


def container_resource(text: str) -> list[str]:
    """Look at the name of what a container takes."""
    return resource(text) + ["must be a standard resource for containers"] * (
        not _is_standard(text, _OF_CONTAINERS)
    )


def quota_resource(text: str) -> list[str]:
    """Look at the name of what a ResourceQuota limits."""
    return resource(text) + ["must be a standard resource for quota"] * (not _is_standard(text, _OF_QUOTAS))


def _is_standard(name: str, standard: set[str]) -> bool:
    return "/" in name or name in standard or name.removeprefix("requests.").startswith("hugepages-")
