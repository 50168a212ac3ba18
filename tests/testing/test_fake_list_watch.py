"""A resource that a test plays, without an API server."""

import pytest

from distq.testing import FakeListWatch


def test_the_old_name_of_send_works_for_one_version() -> None:
    """A test that was written for 0.1.0 sends its line, and is asked to change."""
    source = FakeListWatch("v1/Pod")
    with source.watch("0") as lines:
        with pytest.warns(DeprecationWarning, match="send"):
            source.tell(b"odd")
        assert next(iter(lines)) == b"odd"
