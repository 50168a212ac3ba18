"""How a run of the suite goes: in how many processes, and what it leaves to CI.

A run that names only files or single tests is for whoever works on them: it stays in this process, where a
debugger works, and leaves nothing out.
"""

import os
import signal

import pytest

from tests.support.parts import IN_CI


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
