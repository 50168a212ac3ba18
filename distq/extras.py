"""Names the extra that brings the package that a command or a fixture misses."""

from collections.abc import Iterator
from contextlib import contextmanager

from distq.errors import ConfigError


@contextmanager
def require_extra(extra: str) -> Iterator[None]:
    """Turn an import of a missing third-party module into a ConfigError that names the extra."""
    try:
        yield
    except (ModuleNotFoundError, ConfigError) as error:
        # distq.client names an extra of its own, which is only a part of this one
        missing = error if isinstance(error, ModuleNotFoundError) else error.__context__
        if not isinstance(missing, ModuleNotFoundError) or str(missing.name).startswith("distq"):
            raise
        package = str(missing.name).partition(".")[0]
        raise ConfigError(
            f"no module \"{package}\": the extra is not installed. Run pip install 'distq[{extra}]'."
        ) from None
