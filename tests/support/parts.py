"""The real parts that tests run on: servers and programs that a machine may lack."""

import os
import shutil
from typing import NoReturn

import pytest

IN_CI = os.environ.get("CI") == "true"


def missing(reason: str) -> NoReturn:
    """Skip the test for want of a real part, fail it in CI; ``reason`` ends with what gets the part."""
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


def program(*names: str, package: str) -> str:
    """Return the path of the first of these programs that is there; Debian's ``package`` has them."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        missing(f"no {names[0]}: apt-get install {package}")
    return found
