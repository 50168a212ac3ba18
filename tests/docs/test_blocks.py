"""The blocks of README.md, CONTRIBUTING.md and docs/ are true.

Code and commands run; what cannot run here, and each drawing, is compared with what it represents. A block
without a runner fails.
"""

import pytest

from tests.docs import (
    drawings,
    gallery,
    manifests,
    operations,
    operators,
    programs,
    provisioners,
    shell,
    tutorial,
    webhooks,
)
from tests.docs.pages import BLOCKS, Block
from tests.docs.reader import RUNNERS, Reader, runner_of

RUNNERS_IN = (
    programs,
    gallery,
    tutorial,
    operators,
    provisioners,
    shell,
    manifests,
    operations,
    webhooks,
    drawings,
)
"""The modules whose import registers the runners."""

_SLOW = ("# kopf_foos.py", "# test_certificates.py", "# test_failures.py", "# test_pods.py")
"""Blocks that run a suite of tests, or another framework, in a process of their own."""


def _rows() -> list[object]:
    """Return each block by its title, with a mark for those that are slow."""
    slow = pytest.mark.slow
    return [
        pytest.param(block, id=block.title, marks=slow if block.title.startswith(_SLOW) else ())
        for block in BLOCKS
    ]


@pytest.mark.timeout(600)  # each command of a block has a limit of its own
@pytest.mark.parametrize("block", _rows())
def test_every_block_is_true(block: Block, reader: Reader) -> None:
    """Each block of code, commands or drawing is run, or compared with what it represents."""
    runner_of(block)(block.text, reader)


def test_every_runner_has_its_block() -> None:
    """Nothing is left of a block that went."""
    assert [start for start in RUNNERS if not any(block.title.startswith(start) for block in BLOCKS)] == []
