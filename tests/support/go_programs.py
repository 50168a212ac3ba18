"""Go programs that tests run beside ours."""

from tests.go.module import GoModule
from tests.support.parts import missing


def require(module: GoModule) -> None:
    """Skip the test where the module's programs are not built, fail it in CI."""
    if not module.is_in(module.cached()):
        missing(f"no {' and '.join(module.programs)} of client-go: {module.build_command}")
