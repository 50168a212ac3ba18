"""Loads the fixture that the tests of the provision controller share."""

from collections.abc import Callable

import pytest

from distq.testing import Sandbox
from tests.workers.provisioning import Play


@pytest.fixture
def begin(sandbox: Sandbox) -> Callable[..., Play]:
    """Give what makes a provisioner with a storage and a class, by the options of a ProvisionController."""
    return lambda **options: Play(sandbox, **options)
