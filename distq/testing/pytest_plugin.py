"""The fixture that pytest finds where distq is installed.

Every start of pytest imports this module, also where no test is about distq: so it imports nothing else.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from distq.testing.sandbox import Sandbox


@pytest.fixture(scope="module")
def sandbox() -> "Iterator[Sandbox]":
    """Give a distq.testing.Sandbox, a Redis and a cluster of their own, to the tests of a module.

    ``sandbox.apply`` fills the cluster, ``sandbox.run_until_idle`` runs controllers. Needs the extra demo.
    """
    from distq.extras import require_extra

    with require_extra("demo"):
        from distq.testing.sandbox import Sandbox
    with Sandbox() as sandbox:
        yield sandbox
