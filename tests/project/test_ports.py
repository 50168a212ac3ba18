"""The ports that tests choose for their servers: none that anyone else may have by the time of its use."""

import secrets
import subprocess
import sys

import pytest

from tests import ROOT
from tests.support import ports
from tests.support.ports import free_port

CHOOSE = "from tests.support.ports import *; print(*[free_port() for _ in range(3 * SIZE)])"


def test_no_two_ports_of_a_process_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a cluster's nodes are chosen before any of the nodes listens."""
    monkeypatch.setattr(secrets, "randbelow", lambda _: 7)
    assert len({free_port() for _ in range(ports.SIZE // 2)}) == ports.SIZE // 2


def test_no_two_processes_choose_the_same_port() -> None:
    """Though none of them listens yet."""
    chosen = {free_port() for _ in range(3 * ports.SIZE)}
    others = subprocess.check_output([sys.executable, "-c", CHOOSE], cwd=ROOT, text=True)
    assert not chosen & set(map(int, others.split()))
