"""Files of objects to start with: what is wrong in one is said with its place, as a compiler does."""

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from distq.errors import ConfigError
from distq.testing.apiserver.requests import KubernetesLoader

_NEEDED = ("apiVersion", "kind", "metadata")


class Document(NamedTuple):
    """An object of a manifest, and where it begins: ``file:line:column``."""

    place: str
    content: dict[str, Any]


def read_manifest(path: Path) -> list[Document]:
    """Return the objects of a file; raise ConfigError with the place of what is no YAML or no object."""
    try:
        loader = KubernetesLoader(path.read_bytes())
        documents = []
        while loader.check_node() and (node := loader.get_node()):
            content = loader.construct_document(node)
            if content is not None:
                place = _place(path, node.start_mark)
                _require_object(place, content)
                documents.append(Document(place, content))
    except OSError as error:
        raise ConfigError(f"no manifest {path}: {(error.strerror or str(error)).lower()}.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "not YAML"
        raise ConfigError(f"{_place(path, mark)}: {problem}. Correct the YAML.") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise ConfigError(f"{path}:1:1: not text in UTF-8. Give a file of YAML.") from None
    return documents


def _place(path: Path, mark: yaml.Mark | None) -> str:
    return f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else f"{path}:1:1"


def _require_object(place: str, content: Any) -> None:
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "a plain value"
        raise ConfigError(f"{place}: {kind} instead of an object. Give apiVersion, kind and metadata.")
    missing = [name for name in _NEEDED if not content.get(name)]
    if missing:
        raise ConfigError(f"{place}: an object without {' and '.join(missing)}. Add it.")
    if not isinstance(content["metadata"], dict):
        raise ConfigError(f"{place}: metadata that is no mapping. Give it a name.")
    if not all(isinstance(content[name], str) for name in ("apiVersion", "kind")):
        raise ConfigError(f"{place}: apiVersion or kind that is no text. Quote it.")
