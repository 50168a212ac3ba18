"""From one word to all names that a resource has: its kind, plural and singular, and its API group."""

import keyword
import re
import sys
from typing import NamedTuple

from distq.dns1123 import DNS1123_LABEL, DNS1123_SUBDOMAIN
from distq.errors import ConfigError

_WORDS = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")
_LONGEST_GROUP = 180
"""Leaves room for the plural in the name of the definition, which has at most 253."""


class Names(NamedTuple):
    """What templates call a resource."""

    kind: str
    plural: str
    """Also the module, the queue, and the folder."""
    singular: str
    constant: str
    """The kind as Python calls a constant."""
    group: str


def names_of(name: str, group: str) -> Names:
    """Return the names of ``Backup``, ``backup`` or ``cron-tab``; raise ConfigError for what is no kind."""
    if not _WORDS.fullmatch(name):
        raise ConfigError(f'bad name "{name}": no kind of objects. Give letters and digits, such as Backup.')
    kind = "".join(part[0].upper() + part[1:] for part in re.split("[-_]", name))
    singular = kind.lower()
    plural = plural_of(singular)
    if not DNS1123_LABEL.fullmatch(plural):
        raise ConfigError(f'bad name "{name}": longer than 63 characters. Give a shorter one.')
    if plural in sys.stdlib_module_names or keyword.iskeyword(plural):
        raise ConfigError(
            f'bad name "{name}": a module "{plural}" would hide Python\'s. Give another, such as My{kind}.'
        )
    if not DNS1123_SUBDOMAIN.fullmatch(group) or "." not in group or len(group) > _LONGEST_GROUP:
        raise ConfigError(f'bad group "{group}": no domain. Give one of yours, such as example.com.')
    constant = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).upper()
    return Names(kind, plural, singular, constant, group)


def plural_of(singular: str) -> str:
    """Return the plural of a word in small letters, as English makes most of them."""
    if singular.endswith(("s", "x", "z", "ch", "sh")):
        return f"{singular}es"
    if re.search("[^aeiou]y$", singular):
        return f"{singular[:-1]}ies"
    return f"{singular}s"
