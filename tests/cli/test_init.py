"""``distq init``: what it writes works at once, and it overwrites nothing."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from distq.cli.init import names_of
from distq.errors import ConfigError
from tests import ROOT
from tests.cli.conftest import CommandLine
from tests.support.parts import program

TIMEOUT = 300.0
FILES = ["README.md", "crd.yaml", "crontab.yaml", "crontabs.py", "pyproject.toml", "test_crontabs.py"]


@pytest.fixture
def project(distq: CommandLine) -> Path:
    """Write the controller of a kind of two words."""
    done = distq("init", "cron-tab", "--group", "stable.example.org")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"crontabs/{name}" for name in FILES]
    return distq.folder / "crontabs"


def run_in(project: Path, *command: str, text: str = "") -> str:
    """Run a command there, as if the virtualenv of its README were active; return what it prints."""
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("DISTQ_", "KUBE", "PYTEST"))
    }
    path = f"{Path(sys.executable).parent}:{own['PATH']}"
    done = subprocess.run(
        command,
        cwd=project,
        env={**own, "HOME": str(project), "PATH": path},
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commands_of(project: Path) -> list[str]:
    """Return the blocks of commands in its README."""
    return re.findall(r"^```sh\n(.*?)^```$", (project / "README.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.first_contact(20)
def test_its_tests_pass_and_its_checks_find_nothing(project: Path) -> None:
    """pytest, ruff and mypy, as its README says."""
    _, checks, _, _ = commands_of(project)
    assert checks == "pytest && ruff check && ruff format --check && mypy .\n"
    printed = run_in(project, "bash", "-e", text=checks)
    assert re.search(r"4 passed", printed)
    assert "no issues found" in printed


@pytest.mark.first_contact(20)
def test_it_can_be_tried_in_a_sandbox(project: Path) -> None:
    """The block of its README, pasted as it is."""
    program("kubectl", package="kubernetes-client")
    _, _, trial, _ = commands_of(project)
    printed = run_in(project, "bash", "-e", text=trial)
    assert printed.endswith("crontab.stable.example.org/example condition met\nhello\n")


def test_its_manifests_are_printed(project: Path) -> None:
    """Two sides, and the rights that its reconcile function needs for its writes."""
    *_, deploy = commands_of(project)
    run_in(project, "bash", "-e", text=deploy)
    objects = list(yaml.safe_load_all((project / "deploy.yaml").read_text()))
    assert sum(obj["kind"] == "Deployment" for obj in objects) == 2
    (worker,) = (
        obj for obj in objects if obj["kind"] == "ClusterRole" and "worker" in obj["metadata"]["name"]
    )
    rights = {resource: rule["verbs"] for rule in worker["rules"] for resource in rule["resources"]}
    assert rights["configmaps"] == ["get", "create", "patch"]
    assert rights["crontabs/status"] == ["patch"]


def test_its_installation_names_its_needs(project: Path) -> None:
    """The module is packed, and the extras are distq's; not installed here, which takes a package index."""
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    assert settings["tool"]["setuptools"]["py-modules"] == ["crontabs"]
    ours = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert settings["project"]["dependencies"] == [f"distq[kubernetes]>={ours['version']}"]
    assert "distq[demo]" in settings["project"]["optional-dependencies"]["dev"]
    assert {"kubernetes", "demo"} <= set(ours["optional-dependencies"])


@pytest.mark.first_contact(20)
def test_its_files_name_no_place_of_this_machine(project: Path) -> None:
    """They are to be shared: no path to the distq that wrote them, nor to their own folder."""
    places = {str(project), str(project.parent), str(ROOT)}
    for path in project.iterdir():
        text = path.read_text()
        assert not [place for place in places if place in text], path
    setup, *_ = commands_of(project)
    assert setup == "pip install -e '.[dev]'\n"


def test_its_definition_has_the_names_of_its_kind(project: Path) -> None:
    """In the group that was asked for."""
    definition = yaml.safe_load((project / "crd.yaml").read_text())
    assert definition["metadata"]["name"] == "crontabs.stable.example.org"
    assert definition["spec"]["names"] == {"kind": "CronTab", "plural": "crontabs", "singular": "crontab"}


def test_nothing_is_overwritten(distq: CommandLine) -> None:
    """A folder with a file in it is refused, an empty one is taken."""
    folder = distq.folder / "backups"
    folder.mkdir()
    (folder / "mine").touch()
    done = distq("init", "Backup")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "distq: cannot write into backups: it is not empty. Choose another name or place.\n"
    assert [path.name for path in folder.iterdir()] == ["mine"]
    (folder / "mine").unlink()
    assert distq("init", "Backup").returncode == 0
    (distq.folder / "topics").touch()
    done = distq("init", "Topic")
    assert (done.returncode, done.stderr) == (
        2,
        "distq: cannot write topics: file exists. Choose another place.\n",
    )


@pytest.mark.parametrize(
    ("name", "kind", "plural", "constant"),
    [
        ("Backup", "Backup", "backups", "BACKUP"),
        ("backup", "Backup", "backups", "BACKUP"),
        ("CronTab", "CronTab", "crontabs", "CRON_TAB"),
        ("cron_tab", "CronTab", "crontabs", "CRON_TAB"),
        ("Policy", "Policy", "policies", "POLICY"),
        ("Gateway", "Gateway", "gateways", "GATEWAY"),
        ("Ingress", "Ingress", "ingresses", "INGRESS"),
        ("switch", "Switch", "switches", "SWITCH"),
        ("S3Bucket", "S3Bucket", "s3buckets", "S3_BUCKET"),
    ],
)
def test_all_names_come_from_one_word(name: str, kind: str, plural: str, constant: str) -> None:
    """As Kubernetes and Python would call it."""
    names = names_of(name, "example.com")
    assert (names.kind, names.plural, names.singular, names.constant) == (
        kind,
        plural,
        kind.lower(),
        constant,
    )


@pytest.mark.parametrize("group", ["a.b", "9.example.com", f"{'a' * 64}.example.com", "a" * 178 + ".b"])
def test_a_group_is_any_domain_that_api_servers_take(group: str) -> None:
    """They limit the whole name, and no label of it."""
    assert names_of("Backup", group).group == group


@pytest.mark.parametrize(
    ("name", "group", "message"),
    [
        ("", "example.com", "no kind of objects"),
        ("../backup", "example.com", "no kind of objects"),
        ("3d", "example.com", "no kind of objects"),
        ("Bäckup", "example.com", "no kind of objects"),
        ("backup-", "example.com", "no kind of objects"),
        ("B" * 63, "example.com", "longer than 63"),
        ("Secret", "example.com", 'a module "secrets" would hide'),
        ("A", "example.com", 'a module "as" would hide'),
        ("Backup", "example", "bad group"),
        ("Backup", "Example.com", "bad group"),
        ("Backup", "-a.com", "bad group"),
        ("Backup", "a..com", "bad group"),
        ("Backup", "a-.com", "bad group"),
        ("Backup", f"{'a.' * 100}com", "bad group"),
    ],
)
def test_a_text_that_is_no_name_is_refused(name: str, group: str, message: str) -> None:
    """Before anything is written."""
    with pytest.raises(ConfigError, match=message):
        names_of(name, group)
