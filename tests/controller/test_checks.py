"""A program's own checks: how they fail a probe, and which threads a check that misbehaves cannot block."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from distq.config import Settings
from distq.controller import process_health
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.controller.process_health import Checks
from distq.errors import ConfigError
from distq.workqueue.memory import MemoryQueue
from tests.controller.test_manager import managing
from tests.support.eventually import eventually


def manager() -> Manager:
    """Return a Manager of one controller in memory."""
    return Manager([Controller(MemoryQueue("foos"), lambda _: None)], settings=Settings())


class Unprintable(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_own_checks_fail_the_probe_that_they_belong_to() -> None:
    """Readiness also fails where health does, as with distq's own checks."""
    up = {"disk": True, "api": True}

    def disk() -> None:
        if not up["disk"]:
            raise OSError("no space\nleft")

    one = manager()
    one.add_healthz_check("disk", disk)
    one.add_readyz_check("api", lambda: up["api"])
    with managing(one):
        eventually(lambda: one._is_working)
        health: Any = one._health
        assert (health.health(), health.readiness()) == ([], [])
        up["api"] = False
        assert (health.health(), health.readiness()) == ([], ["api: failed"])
        up["disk"] = False
        assert health.health() == ["disk: OSError: no space left"]
        assert health.readiness() == ["disk: OSError: no space left", "api: failed"]
        one.add_healthz_check("later", lambda: False)
        assert health.health() == ["disk: OSError: no space left", "later: failed"]


def test_any_exception_of_a_check_is_its_answer() -> None:
    """Nothing of it reaches the thread of the probe."""
    group = Checks()

    def leave() -> None:
        raise SystemExit(3)

    def hide() -> None:
        raise Unprintable

    group.add("leave", leave)
    group.add("hide", hide)
    group.add("fine", lambda: None)
    problems = group.call()()
    assert [problem.partition(":")[0] for problem in problems] == ["leave", "hide"]
    assert problems[0] == "leave: SystemExit: 3"


def test_a_check_that_hangs_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails, the others answer, and it is not called again before it has ended."""
    monkeypatch.setattr(process_health, "CHECK_TIMEOUT", 0.5)
    go, calls = threading.Event(), list[float]()

    def hang() -> None:
        calls.append(time.monotonic())
        go.wait(60)

    group = Checks()
    group.add("api", hang)
    group.add("disk", lambda: False)
    for _ in range(2):
        api, disk = group.call()()
        assert api.startswith("api: no answer for ")
        assert disk == "disk: failed"
    assert len(calls) == 1
    go.set()
    eventually(lambda: group.call()() == ["disk: failed"] and len(calls) > 1)


async def awaits() -> None:
    """Be a check that a thread cannot make."""


def of_a_request(request: object) -> None:
    """Be a check as controller-runtime has it."""


def steps() -> Iterator[None]:
    """Yield, as a user of the context would."""
    yield


@pytest.mark.parametrize(
    ("name", "check", "message"),
    [
        ("a", 5, "bad check a: 5 is not callable. Give a plain function without arguments."),
        ("a", of_a_request, "bad check a: of_a_request: missing a required argument: 'request'."),
        ("a", awaits, "bad check a: awaits is an async def. Give a plain function"),
        ("a", steps, "bad check a: steps is a generator function."),
        ("", print, "bad name of a check: ''."),
        ("a\nb", print, "bad name of a check: 'a\\nb'."),
        ("there", print, "bad name of a check: there is a check there. Choose another name."),
    ],
)
def test_a_value_that_cannot_be_a_check_is_refused(name: str, check: Any, message: str) -> None:
    """When it is added."""
    one = manager()
    for add in (one.add_healthz_check, one.add_readyz_check):
        add("there", print)
        with pytest.raises(ConfigError) as caught:
            add(name, check)
        assert message in str(caught.value)
