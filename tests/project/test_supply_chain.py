"""All that is installed was chosen: locked, with hashes, under licences that ours goes with."""

import json
import os
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CI, IMAGE = ROOT / ".ci" / "requirements.txt", ROOT / "deploy" / "requirements.txt"
BUILD = ROOT / "deploy" / "build-requirements.txt"
LOCKS = pytest.mark.parametrize("lock", [CI, IMAGE, BUILD], ids=lambda lock: str(lock.relative_to(ROOT)))
COPYLEFT = re.compile(r"\b[AL]?GPL|Affero|GNU", re.IGNORECASE)
LICENCES = re.compile(
    r"\b(MIT|Apache|BSD|0BSD|ISC|PSF|Python Software Foundation|MPL|Mozilla Public License 2|Zope Public)\b",
    re.IGNORECASE,
)
"""Each may be used by an Apache 2.0 project, and shipped in an image beside it."""


def pinned(lock: Path) -> dict[str, str]:
    """Return the versions of a lock file by name."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", lock.read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def asked_for(*extras: str) -> list[Requirement]:
    """Return what pyproject.toml asks for with these extras, those that they name included."""
    project = PROJECT["project"]
    texts = [
        *project["dependencies"],
        *(text for extra in extras for text in project["optional-dependencies"][extra]),
    ]
    found = list(map(Requirement, texts))
    own = [requirement for requirement in found if requirement.name == project["name"]]
    others = [requirement for requirement in found if requirement not in own]
    return others + [each for requirement in own for each in asked_for(*requirement.extras)]


@pytest.mark.parametrize(("lock", "extras"), [(CI, ["ci"]), (IMAGE, ["all", "demo"])], ids=["ci", "image"])
def test_the_lock_has_the_dependencies_of_the_project(lock: Path, extras: list[str]) -> None:
    """A dependency that is added or raised without ``.ci/lock`` is seen."""
    have = pinned(lock)
    for requirement in asked_for(*extras):
        version = have.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in {lock}: run .ci/lock"
        assert requirement.specifier.contains(version), f"{requirement} is not {version}: run .ci/lock"


def test_the_lock_has_the_build_requirements_of_the_project() -> None:
    """The build installs nothing that is not locked."""
    have = pinned(BUILD)
    for requirement in map(Requirement, PROJECT["build-system"]["requires"]):
        assert requirement.specifier.contains(have[canonicalize_name(requirement.name)]), "run .ci/lock"


@LOCKS
def test_every_package_has_hashes_and_no_address(lock: Path) -> None:
    """Which index it comes from does not matter, for another package has another hash."""
    entries = re.split(r"\n(?=\S)", lock.read_text().strip())
    assert [entry for entry in entries if not re.match(r"[a-z0-9-]+==\S+ ", entry)] == []
    assert [entry for entry in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}", entry)] == []
    assert not re.search(r"https?:|--(extra-)?index-url|--find-links|--trusted-host|@ ", lock.read_text())


def test_ci_tests_the_versions_that_are_shipped() -> None:
    """What the image has, and what builds it, CI has in the same version."""
    tested = pinned(CI)
    shipped = pinned(IMAGE) | pinned(BUILD)
    assert {name: version for name, version in shipped.items() if tested.get(name) != version} == {}


def test_the_image_installs_locked_packages_and_nothing_else() -> None:
    """Each install of the Dockerfile takes hashes, or no index at all."""
    dockerfile = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    installs = re.findall(r"pip (?:install|wheel) [^&\n]*", dockerfile)
    assert installs
    assert [each for each in installs if "--require-hashes" not in each and "--no-index" not in each] == []


def test_licences_are_those_that_ours_goes_with() -> None:
    """Each package of the image that is for this Python and system says that it is under one of them."""
    installed = {str(canonicalize_name(each.name)): each.metadata for each in metadata.distributions()}
    packages = pinned(IMAGE).keys() & installed.keys()
    assert canonicalize_name("redis") in packages
    for name in packages:
        about = installed[name]
        classifiers = [each for each in about.get_all("Classifier", []) if each.startswith("License ::")]
        said = [*about.get_all("License-Expression", []), *classifiers, *about.get_all("License", [])]
        assert any(LICENCES.search(text[:2000]) for text in said), (name, said)
        assert not any(COPYLEFT.search(text[:200]) for text in said), (name, said)


def test_containers_are_bounded() -> None:
    """Memory, processors, processes and logs of each; Redis is full before its container is."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name, service in services.items():
        assert re.fullmatch(r"\d+m", service["mem_limit"]), name
        assert service["cpus"] > 0, name
        assert service["pids_limit"] > 0, name
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}, name
    redis = services["redis"]
    most = redis["command"][redis["command"].index("--maxmemory") + 1]
    assert 2 * int(most.removesuffix("mb")) < int(redis["mem_limit"].removesuffix("m"))


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        ([{"name": "a", "version": "1", "vulns": []}], 0, "advisories: 0 known in 1 packages"),
        ([{"name": "a", "skip_reason": "not found"}], 3, "not reached for 1 packages"),
        (
            [{"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]}],
            1,
            "X-1, mended in 2",
        ),
        ([], 3, "not reached for all packages"),
    ],
)
def test_an_index_without_data_is_not_taken_for_good_news(
    tmp_path: Path, answer: list[object], status: int, says: str
) -> None:
    """A package that was not asked about is reported, and is a status of its own."""
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci" / "advisories"
    script.write_bytes((ROOT / ".ci" / "advisories").read_bytes())
    said = tmp_path / "answer.json"
    said.write_text(json.dumps({"dependencies": answer}) if answer else "")
    program = tmp_path / ".venv" / "bin" / "pip-audit"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ncat {said}\n")
    program.chmod(0o755)
    done = subprocess.run(
        ["python3", str(script)], env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    assert says in done.stdout
