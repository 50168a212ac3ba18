"""The forms that names have, and the server's words for what is not of a form.

Each function returns what is wrong with a text; nothing, where it is right.
Source: apimachinery pkg/util/validation, pkg/api/validate/content and pkg/api/validation/path.
"""

import math
import re
from collections.abc import Callable

from distq.testing.apiserver.resources import built_in, names_in

Form = Callable[[str], list[str]]

_PREFIX_RULE = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


def _form(name: str) -> Form:
    form = built_in()["forms"][name]
    pattern, most = re.compile(form["pattern"]), form.get("most", math.inf)

    def wrongs(text: str) -> list[str]:
        too_long = [f"must be no more than {most} bytes"] * (len(text) > most)
        return too_long + [form["rule"]] * (pattern.fullmatch(text) is None)

    return wrongs


label, subdomain, dns_1035_label = _form("label"), _form("subdomain"), _form("dns_1035_label")
label_value, config_key, _name_part = _form("label_value"), _form("config_key"), _form("name_part")
percent = _form("percent")


def qualified(text: str, called: str = "a qualified name") -> list[str]:
    """Look at a name with an optional domain before it, such as ``example.com/name``."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return [f"{called} {built_in()['forms']['name_part']['rule']}{_PREFIX_RULE}"]
    of_prefix = (subdomain(prefix) if prefix else ["must be non-empty"]) if slash else []
    of_name = ["must be non-empty"] * (not name) + _name_part(name)
    return [f"prefix part {wrong}" for wrong in of_prefix] + [f"name part {wrong}" for wrong in of_name]


def label_key(text: str) -> list[str]:
    """Look at the key of a label."""
    return qualified(text, "a valid label key")


def finalizer(text: str) -> list[str]:
    """Look at a finalizer, which has a domain, or is one of the server's own."""
    needs_domain = "/" not in text and text not in {"foregroundDeletion", "kubernetes", "orphan"}
    unknown = ["name is neither a standard finalizer name nor is it fully qualified"] * needs_domain
    return unknown + qualified(text)


def path_segment(text: str) -> list[str]:
    """Look at a name of which only has to hold that a URL can have it."""
    if text in {".", ".."}:
        return [f"may not be '{text}'"]
    return [f"may not contain '{letter}'" for letter in "/%" if letter in text]


def port_name(text: str) -> list[str]:
    """Look at the name of a container's port."""
    rules = built_in()["port_name"]
    return [rule for pattern, rule in rules.items() if not re.fullmatch(pattern, text, re.DOTALL)]


_OF_CONTAINERS = {"cpu", "ephemeral-storage", "memory"}
COUNTED = {*names_in(built_in()["resources"], "counted")}
_OF_QUOTAS = {*_OF_CONTAINERS, *COUNTED, *names_in(built_in()["resources"], "of_quotas")}


def resource(text: str) -> list[str]:
    """Look at the name of what there are amounts of, such as ``cpu`` or ``example.com/gpu``."""
    unknown = not _is_standard(text, _OF_QUOTAS | {"storage"})
    return qualified(text) + ["must be a standard resource type or fully qualified"] * unknown


def container_resource(text: str) -> list[str]:
    """Look at the name of what a container takes."""
    unknown = not _is_standard(text, _OF_CONTAINERS)
    return resource(text) + ["must be a standard resource for containers"] * unknown


def quota_resource(text: str) -> list[str]:
    """Look at the name of what a ResourceQuota limits."""
    return resource(text) + ["must be a standard resource for quota"] * (not _is_standard(text, _OF_QUOTAS))


def _is_standard(name: str, standard: set[str]) -> bool:
    return "/" in name or name in standard or name.removeprefix("requests.").startswith("hugepages-")
