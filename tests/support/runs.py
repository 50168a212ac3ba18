"""How a run of the suite goes: in how many processes, and what it leaves to CI.

A run that names only files or single tests is for whoever works on them: it stays in this process, where a
debugger works, and leaves nothing out.
"""

import os
import signal
from zlib import crc32

import pytest

from tests.support.parts import IN_CI

_ALWAYS_SAMPLED = ("tests/conformance/", "tests/first_contact/", "tests/workqueue/test_promises.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer to run a part of the suite on one more version of Python."""
    parser.addoption("--sample", action="store_true", help="run a tenth of the suite, always the same")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep, for ``--sample``, a tenth by the tests' ids, and all that a user meets first."""
    if not config.option.sample:
        return
    left_out = [item for item in items if not _sampled(item)]
    items[:] = [item for item in items if _sampled(item)]
    config.hook.pytest_deselected(items=left_out)


def _sampled(item: pytest.Item) -> bool:
    return item.nodeid.startswith(_ALWAYS_SAMPLED) or crc32(item.nodeid.encode()) % 10 == 0


def pytest_configure() -> None:
    """Let signals end the programs that tests start, also under nohup or in the background of a shell.

    Children inherit what is ignored, but not what is handled: so handle it, and do nothing.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use a process more than there are processors, since most of a test is waiting for others."""
    return 0 if _names_files(config) else len(os.sched_getaffinity(0)) + 1


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave to CI what is marked ``slow``, unless it is asked for."""
    asked_for = IN_CI or item.config.option.markexpr or _names_files(item.config)
    if item.get_closest_marker("slow") and not asked_for:
        pytest.skip("slow, run by CI: pytest -m slow, or name the file")


def _names_files(config: pytest.Config) -> bool:
    folder = config.invocation_params.dir
    return all((folder / argument.partition("::")[0]).is_file() for argument in config.args)
