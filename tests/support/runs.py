"""How a run of the suite goes: in how many processes, on which servers, what it leaves to CI and the night.

A run that names only files or single tests is for development: it stays in this process, where a
debugger works, and leaves nothing out.
"""

import contextlib
import gc
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Sequence
from importlib import import_module
from itertools import islice
from typing import TypeVar
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from tests import ROOT
from tests.support.parts import IN_CI
from tests.support.redis_servers import KINDS, find_server

T = TypeVar("T")

_ALWAYS_SAMPLED = ("tests/proofs/conformance/", "tests/workqueue/test_promises.py")

_ON_EVERY_SERVER = ("tests/redisio/",)
"""Suites that ask something of Redis itself: scripts, connections, topologies."""
_ONCE_ON_EVERY_SERVER = (
    *("tests/workqueue/", "tests/proofs/oracle/", "tests/leaderelection/"),
    "tests/redisio/test_interrupts.py",
)
"""Suites of what scripts do, or this process: one set of a test's parameters shows it on a server."""

_API_SERVERS = ("emulator", "real")
_ON_EVERY_API_SERVER = ("tests/client/", "tests/informer/", "tests/leaderelection/", "tests/testing/")
"""Suites that ask something of API servers, or compare the emulated one with the real one."""

_LONG = 600.0
"""Seconds: a test that has more time than this may take minutes."""
_QUICK = ("tests/redisio/", "tests/workqueue/")
"""Suites of thousands of tests, most of which take a moment."""
_WAITING = (
    *("tests/redisio/test_cluster.py", "tests/redisio/test_sentinel.py"),
    *("tests/workqueue/test_frozen.py", "tests/workqueue/test_waiting_handles.py"),
)
"""Tests of these suites that wait for seconds, until others notice that a process is gone or frozen."""

# how long an example takes says how busy the machine is, and nothing of a promise
settings.register_profile("busy-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy-machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer to run a part of the suite, and all of it on all servers."""
    parser.addoption("--sample", action="store_true", help="run a tenth of the suite, always the same")
    parser.addoption("--every-server", action="store_true", help="run each test on each of its servers")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without looking for garbage: nearly all that collection makes stays.

    That takes a third of the time of a collection, which each process of a run makes.
    """
    gc.disable()
    try:
        _import_share(session)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _import_share(session: pytest.Session) -> None:
    """Import a share of the tests before all of them are collected, where others import the other shares.

    pytest rewrites the asserts of a module at its first import and keeps the result, which takes half of the
    collection of a fresh clone. Without shares each process would do all of it at the same time.
    """
    place: dict[str, str | int] = getattr(session.config, "workerinput", {})
    if not place or session.config.args != session.config.getini("testpaths"):
        return
    number, count = int(str(place["workerid"]).removeprefix("gw")), int(place["workercount"])
    for path in sorted((ROOT / "tests").rglob("test_*.py"))[number::count]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collection reports it
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what another server, another Python or the night runs; nothing where files are named."""
    if _names_files(config):
        return
    left_out = [] if config.option.every_server else [*_of_other_servers(items), *_of_other_clusters(items)]
    if config.option.sample:
        left_out += [item for item in items if not _sampled(item)]
    if not config.option.markexpr:
        left_out += [item for item in items if item.get_closest_marker("night")]
    if left_out:
        names = {item.nodeid for item in left_out}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in names])
        items[:] = [item for item in items if item.nodeid not in names]
    workers: dict[str, str | int] = getattr(config, "workerinput", {})
    if workers:
        items[:] = in_order(items, int(workers["workercount"]))


def in_order(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return the items such that each process begins with what may take long, and ends with what is quick.

    The processes of a run get equal parts of the list, and one that has nothing left takes over the end of
    another's. What takes minutes would run alone at the end if one of them came to it last. What draws keeps
    a processor busy: it comes later, when the fleets of real processes have ended that begin first. Tests
    that wait for seconds are for one process, so that the others have the processors meanwhile. Tests that
    ask a real API server are for every other process, since each process with such a test starts its own.
    """
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[_when(item)].append(item)
    then, quick = iter(groups["then"]), iter(groups["last"])
    asking = (processes + 1) // 2
    middle = len(groups["then"]) + len(groups["real"])
    ordered: list[pytest.Item] = []
    for process in range(processes):
        ordered += groups["first"][process::processes]
        ordered += groups["waits"] if process == 0 else []
        real = [] if process % 2 else _part(groups["real"], process // 2, asking)
        size = len(_part(range(middle), process, processes))
        ordered += [*real, *islice(then, max(0, size - len(real)))]
        ordered += groups["later"][process::processes]
        ordered += islice(quick, max(0, (process + 1) * len(items) // processes - len(ordered)))
    return [*ordered, *then]


def _when(item: pytest.Item) -> str:
    limit = item.get_closest_marker("timeout")
    if limit and limit.args[0] > _LONG:
        return "later" if item.get_closest_marker("random") else "first"
    if item.nodeid.startswith(_WAITING):
        return "waits"
    if item.nodeid.startswith(_QUICK):
        return "last"
    return "real" if _parameter_of(item, ("real",)) else "then"


def _part(items: Sequence[T], number: int, count: int) -> Sequence[T]:
    """Return one of so many equal parts."""
    return items[number * len(items) // count : (number + 1) * len(items) // count]


def _of_other_servers(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return what another run of the same test makes needless: most ask nothing of Redis itself.

    Such a test runs on one kind, which its name picks, so that each suite runs on all of them; at a desk all
    tests do, on the kinds that are there. In CI what asks something of Redis runs on each, unless it is slow;
    of what scripts do, and of promises of client-go and controller-runtime, each test does with its first
    parameters. The night runs all on each.
    """
    runs: dict[str, dict[str, pytest.Item]] = defaultdict(dict)
    first: dict[str, str] = {}
    for item in items:
        kind = _kind_of(item)
        if kind is None:
            continue
        name = item.nodeid.replace(kind, "")
        is_first = first.setdefault(name.partition("[")[0], name) == name
        if not (IN_CI and _runs_on_each(item, is_first=is_first)):
            runs[name][kind] = item
    return [
        item
        for name, by_kind in runs.items()
        for kind, item in by_kind.items()
        if kind != _one_of(name, _here(by_kind))
    ]


def _runs_on_each(item: pytest.Item, *, is_first: bool) -> bool:
    """Return whether CI runs a test on each kind of Redis."""
    is_slow, is_promise = item.get_closest_marker("slow"), item.get_closest_marker("conformance")
    if item.nodeid.startswith(_ONCE_ON_EVERY_SERVER):
        return is_first and bool(is_promise or not is_slow)
    if item.nodeid.startswith(_ON_EVERY_SERVER):
        return not is_slow
    return is_first and bool(is_promise)


def _of_other_clusters(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return what runs on the other API server, too, where one of them will do.

    That is the emulated one at a desk. In CI the name of a test picks one, so that each suite runs on both;
    the night runs all on both.
    """
    twins: dict[str, dict[str | None, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if not item.nodeid.startswith(_ON_EVERY_API_SERVER):
            test, _, parameters = item.nodeid.partition("[")
            rest = [each for each in parameters.strip("]").split("-") if each not in {*KINDS, *_API_SERVERS}]
            twins["-".join([test, *rest])][_parameter_of(item, _API_SERVERS)].append(item)
    return [
        item
        for name, runs in twins.items()
        if "emulator" in runs and "real" in runs
        for item in runs["emulator" if IN_CI and _one_of(name, _API_SERVERS) == "real" else "real"]
    ]


def _kind_of(item: pytest.Item) -> str | None:
    """Return the kind of Redis that a test runs on: of a server, or of all those of a topology."""
    return _parameter_of(item, KINDS)


def _parameter_of(item: pytest.Item, values: Collection[str]) -> str | None:
    """Return which of these values is a parameter of a test, None if none is."""
    parameters = getattr(item, "callspec", None)
    given = parameters.params.values() if parameters else ()
    return next((value for value in given if isinstance(value, str) and value in values), None)


def _here(kinds: Iterable[str]) -> list[str]:
    """Return the kinds that this machine has; all, if it has none."""
    return [kind for kind in kinds if IN_CI or find_server(kind)] or list(kinds)


def _one_of(name: str, several: Sequence[str]) -> str:
    """Return one that a test's name picks."""
    return several[crc32(name.encode()) % len(several)]


def _sampled(item: pytest.Item) -> bool:
    return item.nodeid.startswith(_ALWAYS_SAMPLED) or crc32(item.nodeid.encode()) % 10 == 0


def pytest_configure() -> None:
    """Let signals end the programs that tests start, also under nohup or in the background of a shell.

    Children inherit what is ignored, but not what is handled: so handle it, and do nothing. Let Python keep
    what it compiles, which some images forbid: hundreds of programs would compile distq anew.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use four processes more than there are processors, since most of a test is waiting for others."""
    return 0 if _names_files(config) else len(os.sched_getaffinity(0)) + 4


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave to CI what is marked ``slow``, unless it is asked for."""
    asked_for = IN_CI or item.config.option.markexpr or _names_files(item.config)
    if item.get_closest_marker("slow") and not asked_for:
        pytest.skip("slow, run by CI: pytest -m slow, or name the file")


def runs_on_one_server(config: pytest.Config) -> bool:
    """Return whether each test runs on one of the servers that are there."""
    return not (IN_CI or config.option.every_server or _names_files(config))


def _names_files(config: pytest.Config) -> bool:
    folder = config.invocation_params.dir
    return all((folder / argument.partition("::")[0]).is_file() for argument in config.args)
