"""Go programs that tests run beside ours."""

from distq.testing.go_module import GoModule
from tests.support.parts import missing


def require(module: GoModule) -> None:
    """Skip the test where the module's programs are not built, fail it in CI."""
    if not module.is_in(module.cached()):
        missing(f"no {' and '.join(module.programs)} of client-go: python3 -m tests.go {module.name}")
