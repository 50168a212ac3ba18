"""Says which extra brings the package that a command misses."""

from collections.abc import Iterator
from contextlib import contextmanager

from distq.errors import ConfigError


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Turn an import of a missing third-party module into a ConfigError that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "distq":
            raise
        raise ConfigError(f'no module "{package}": not installed. pip install "distq[{extra}]".') from None
