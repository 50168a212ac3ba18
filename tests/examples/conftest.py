"""A sandbox of each API server for the tests of a module."""

from collections.abc import Iterator

import pytest

from distq.testing import Sandbox
from tests.support.api_servers import real_api_server_assets


@pytest.fixture(scope="module", params=["emulator", "real"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """Give a sandbox that the module's tests share."""
    if request.param == "emulator":
        with Sandbox() as sandbox:
            yield sandbox
    else:
        real_api_server_assets()
        with Sandbox(server="kube-apiserver") as sandbox:
            yield sandbox
