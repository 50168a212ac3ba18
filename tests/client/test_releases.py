"""The client on other releases of the package ``kubernetes`` than the one that is installed here.

It uses parts of it that its documentation does not name: ``KubeConfigMerger``, and of an ``ApiClient`` the
pools of connections.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.parts import missing

TRIED = [
    "tests/client/test_authorities.py",
    "tests/client/test_credentials.py::test_exec_plugin_gives_the_token",
    "tests/client/test_tls.py",
]
"""Kubeconfigs of several files, certificates, plugins and proxies: what those parts are for."""
FOUND = "import kubernetes; print(kubernetes.__file__, kubernetes.__version__)"


def oldest() -> str:
    """Return the oldest release that the package allows."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = re.match(r"kubernetes>=([\d.]+)", extras["kubernetes"][0])
    assert found
    return ".".join([*found[1].split("."), "0", "0"][:3])


@pytest.mark.slow
@pytest.mark.parametrize("release", [f"=={oldest()}", ""], ids=["oldest", "newest"])
def test_clusters_are_found_on_the_oldest_and_the_newest_release(release: str, tmp_path: Path) -> None:
    """What other tests check of kubeconfigs and credentials holds there, too."""
    place = Path.home() / ".cache/distq/kubernetes" / release.removeprefix("==") if release else tmp_path
    if not (place / "kubernetes").is_dir():
        # the oldest one is kept, and needs what is not installed here; what the newest one needs is
        options = [] if release else ["--no-deps", "--no-compile"]
        install = ["pip", "install", "-q", *options, "--target", str(place), f"kubernetes{release}"]
        done = subprocess.run([sys.executable, "-m", *install], capture_output=True, text=True, check=False)
        if done.returncode:
            missing(f"no kubernetes{release} in {place}: {' '.join(install)}")
    environment = {**os.environ, "PYTHONPATH": f"{place}:{ROOT}"}
    found = _run(environment, "-c", FOUND)
    assert found.stdout.startswith(f"{place}/kubernetes/__init__.py {release.removeprefix('==')}")
    options = ["-q", "-p", "no:cacheprovider", "--numprocesses=0", "-k", "not real"]
    tried = _run(environment, "-m", "pytest", *options, *TRIED)
    assert tried.returncode == 0, tried.stdout


def _run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
