"""Go programs that tests run beside ours."""

import os

import pytest

from tests.go.module import GoModule


def require(module: GoModule) -> None:
    """Skip the test where the module's programs are not built, fail it in CI."""
    if module.is_in(module.cached()):
        return
    reason = f"no client-go in {module.cached()}. Build it: {module.build_command}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
