"""The options of a queue are written down once, and each is where people look for it."""

import re
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from distq.errors import ConfigError
from distq.redisio.connection import Connection
from distq.workqueue.memory.queue import MemoryQueue
from distq.workqueue.options import QueueKeywords, QueueOptions
from distq.workqueue.queue import Queue

SETTINGS = Path(__file__).parents[2] / "docs" / "operations" / "settings.md"
OPTIONS = {option.name: option for option in fields(QueueOptions)}


def test_type_checkers_know_each_option() -> None:
    """Its type is that of the field; a number of seconds may be given as a timedelta."""
    types: dict[str, Any] = {name: option.type for name, option in OPTIONS.items()}
    durations = {name for name, kind in types.items() if kind in (float, float | None)}
    assert durations == {"revive_dead_after", "claim_duration", "wait_timeout"}
    widened = {name: types[name] | timedelta for name in durations}
    assert QueueKeywords.__annotations__ == types | widened


def test_the_reference_has_each_option_with_its_default() -> None:
    """A default that is a number is in the table as that."""
    rows = dict(re.findall(r"^\| `Queue\((\w+)=\)` \| ([^|]+) \|", SETTINGS.read_text(), re.MULTILINE))
    assert rows.keys() == OPTIONS.keys()
    numbers = {
        name: option.default for name, option in OPTIONS.items() if isinstance(option.default, float | int)
    }
    assert numbers == {name: float(rows[name]) for name in numbers}


@pytest.mark.parametrize("kind", ["redis", "memory"])
def test_a_handle_shows_the_options_that_it_was_given(connection: Connection, kind: str) -> None:
    """In Redis and in memory alike."""
    queue = (
        Queue("foos", connection, max_retries=3) if kind == "redis" else MemoryQueue("foos", max_retries=3)
    )
    assert queue.options == QueueOptions(max_retries=3)


@pytest.mark.parametrize("option", sorted(OPTIONS.keys() - {"rate_limiter"}))
def test_a_value_that_no_option_accepts_is_refused_with_a_remedy(option: str) -> None:
    """Nothing comes to Redis."""
    with pytest.raises(ConfigError, match=rf"bad {option} <object object at .*>\. Give "):
        QueueOptions(**{option: object()})  # type: ignore[arg-type]


def test_an_unknown_option_is_named(connection: Connection) -> None:
    """As Python does for every function."""
    with pytest.raises(TypeError, match="'max_lenght'"):
        Queue("foos", connection, max_lenght=3)  # type: ignore[call-arg]
