"""Objects to start with, mostly in files: what is wrong in one is said with its place, as a compiler does."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from distq.errors import ConfigError
from distq.testing.apiserver.requests import KubernetesLoader

Manifest = str | os.PathLike[str] | Mapping[str, Any]
"""The path of a YAML file, YAML itself (a text of more than one line), or an object."""

_NEEDED = ("apiVersion", "kind", "metadata")


class Document(NamedTuple):
    """An object of a manifest, and where it begins: ``file:line:column``."""

    place: str
    content: dict[str, Any]


def read_manifest(manifest: Manifest) -> list[Document]:
    """Return the objects of a manifest; raise ConfigError with the place of what is no YAML or no object."""
    if isinstance(manifest, Mapping):
        _require_object("manifest", manifest)
        return [Document("manifest", dict(manifest))]
    if isinstance(manifest, str) and "\n" in manifest:
        return _read_yaml("manifest", manifest.encode())
    try:
        content = Path(manifest).read_bytes()
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise ConfigError(f"no manifest {manifest}: {cause} in {Path.cwd()}. Check the path.") from None
    return _read_yaml(str(manifest), content)


def _read_yaml(name: str, text: bytes) -> list[Document]:
    documents = []
    try:
        loader = KubernetesLoader(text)
        while loader.check_node() and (node := loader.get_node()):
            content = loader.construct_document(node)
            if content is not None:
                place = _place(name, node.start_mark)
                _require_object(place, content)
                documents.append(Document(place, content))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "not YAML"
        raise ConfigError(f"{_place(name, mark)}: {problem}. Correct the YAML.") from None
    except RecursionError:
        raise ConfigError(f"{name}:1:1: nested too deeply. Give what an API server would take.") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise ConfigError(f"{name}:1:1: not text in UTF-8. Give a file of YAML.") from None
    return documents


def _place(name: str, mark: yaml.Mark | None) -> str:
    return f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else f"{name}:1:1"


def _require_object(place: str, content: Any) -> None:
    if not isinstance(content, Mapping):
        kind = "a list" if isinstance(content, list) else "a plain value"
        raise ConfigError(f"{place}: {kind} instead of an object. Give apiVersion, kind and metadata.")
    missing = [name for name in _NEEDED if not content.get(name)]
    if missing:
        raise ConfigError(f"{place}: an object without {' and '.join(missing)}. Add it.")
    if not isinstance(content["metadata"], Mapping):
        raise ConfigError(f"{place}: metadata that is no mapping. Give it a name.")
    if not all(isinstance(content[name], str) for name in ("apiVersion", "kind")):
        raise ConfigError(f"{place}: apiVersion or kind that is no text. Quote it.")
