"""The command ``distq init``: writes a controller that works at once, to be changed."""

from importlib import resources
from importlib.metadata import version
from pathlib import Path
from string import Template

import click

from distq.cli.help import command
from distq.cli.init.names import Names, names_of
from distq.cli.output import note
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


@command("distq init Backup")
@click.argument("name")
@click.option("--group", default="example.com", show_default=True, help="The API group of its kind.")
def init(*, name: str, group: str) -> None:
    """Write a controller for objects of the kind NAME, with its CRD, a test and a README."""
    names = names_of(name, group)
    folder = Path(names.plural)
    try:
        _make(folder)
        for path, text in _filled(names):
            (folder / path).write_text(text)
            click.echo(folder / path)
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise ConfigError(
            f"cannot write {error.filename or folder}: {cause}. Choose another place."
        ) from None
    note(f"# next: cd {folder}, and what its README.md says")


def _make(folder: Path) -> None:
    """Make the folder, or take one that has nothing in it."""
    folder.mkdir(exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigError(f"cannot write into {folder}: it is not empty. Choose another name or place.")


def _filled(names: Names) -> list[tuple[str, str]]:
    """Return path and text of each file."""
    templates = resources.files("distq.cli.init") / "templates"
    values = {**names._asdict(), "version": version("distq")}
    return [
        (path.format(**values), Template((templates / f"{name}.template").read_text()).substitute(values))
        for name, path in _FILES.items()
    ]
