"""Names the extra that brings the package that a command or a fixture misses."""

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from distq.errors import ConfigError


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Turn an import of a missing third-party module into a ConfigError that names the extra."""
    try:
        yield
    except (ModuleNotFoundError, ConfigError) as error:
        # distq.client names an extra of its own, which is only a part of this one
        missing = error if isinstance(error, ModuleNotFoundError) else error.__context__
        if not isinstance(missing, ModuleNotFoundError) or str(missing.name).startswith("distq"):
            raise  # a module of distq is missing by a mistake, and no extra brings it
        package = str(missing.name).partition(".")[0]
        raise missing_extra(f'no module "{package}"', extra) from None


def missing_extra(what: str, extra: str) -> ConfigError:
    """Return the error about a missing part of an extra."""
    return ConfigError(f"{what}: the extra is not installed. Run {install_command(extra)}.")


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation of distq, from the same source.

    Source: PEP 610, by which pip and uv record the origin of packages that are not from a package index.
    """
    origin = _origin()
    url = origin.get("url", "")
    if url.startswith("file://"):
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        path = unquote(url.removeprefix("file://"))
        return f"pip install {editable}{shlex.quote(f'{path}[{extra}]')}"
    if repository := origin.get("vcs_info"):
        url = f"{repository['vcs']}+{url}@{repository['commit_id']}"
    if folder := origin.get("subdirectory"):
        url += f"#subdirectory={folder}"
    requirement = f"distq[{extra}] @ {url}" if url else f"distq[{extra}]"
    return f"pip install {shlex.quote(requirement)}"


def _origin() -> Mapping[str, Any]:
    """Return the origin of the installed distq, in the form of PEP 610; {} for a package index."""
    from importlib import metadata  # slow, and few programs need it

    try:
        origin = metadata.distribution("distq").read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # it runs from a folder of PYTHONPATH
        folder = Path(__file__).parents[1]
        is_clone = (folder / "pyproject.toml").exists()
        return {"url": folder.as_uri(), "dir_info": {"editable": True}} if is_clone else {}
    return json.loads(origin or "{}")  # type: ignore[no-any-return]  # as PEP 610 has it
