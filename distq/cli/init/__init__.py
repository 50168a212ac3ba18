"""The command ``distq init``: writes a controller that works at once, to be changed."""

import keyword
import re
import sys
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import NamedTuple

import click

from distq.cli.options import command
from distq.cli.output import note
from distq.dns1123 import DNS1123_LABEL, DNS1123_SUBDOMAIN
from distq.errors import ConfigError

_FILES = {
    "README.md": "README.md",
    "controller.py": "{plural}.py",
    "crd.yaml": "crd.yaml",
    "object.yaml": "{singular}.yaml",
    "pyproject.toml": "pyproject.toml",
    "test_controller.py": "test_{plural}.py",
}
"""What each template becomes."""

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


@command("distq init Backup")
@click.argument("name")
@click.option("--group", default="example.com", show_default=True, help="The API group of its kind.")
def init(*, name: str, group: str) -> None:
    """Write a controller for objects of the kind NAME, with its CRD, a test and a README."""
    names = names_of(name, group)
    folder = Path(names.plural)
    try:
        folder.mkdir(exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"cannot write into {folder}: it is not empty. Choose another name or place.")
        for path, text in _filled(names):
            (folder / path).write_text(text)
            click.echo(folder / path)
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise ConfigError(
            f"cannot write {error.filename or folder}: {cause}. Choose another place."
        ) from None
    note(f"# next: cd {folder}, and what its README.md says")


def _filled(names: Names) -> list[tuple[str, str]]:
    templates = resources.files("distq.cli.init") / "templates"
    values = {**names._asdict(), "version": version("distq")}
    return [
        (path.format(**values), Template((templates / f"{name}.template").read_text()).substitute(values))
        for name, path in _FILES.items()
    ]


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
