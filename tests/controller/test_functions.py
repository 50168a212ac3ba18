"""Functions that a program gives are known for what they are, and refused where they do not fit."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from distq.controller.controller import Controller
from distq.controller.functions import is_async
from distq.controller.predicate import generation_changed
from distq.controller.watches import Every, For, Watches
from distq.errors import ConfigError
from distq.workqueue.request import Request


def reconcile(request: Request) -> None:
    """Do nothing."""


async def reconcile_async(request: Request) -> None:
    """Do nothing."""


def two_arguments(request: Request, more: str) -> None:
    """Take too much."""


async def two_arguments_async(more: str, request: Request) -> None:
    """Take something first."""


def reconcile_in_steps(request: Request) -> Iterator[None]:
    """Yield, as if each step were awaited."""
    yield


async def reconcile_in_async_steps(request: Request) -> AsyncIterator[None]:
    """Yield, as if each step were awaited."""
    yield


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate as most libraries do: by a plain function."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return wrapper


def in_background(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make an ``async def`` of a plain function."""

    @functools.wraps(function)
    async def wrapper(*arguments: Any) -> Any:
        return await asyncio.to_thread(function, *arguments)

    return wrapper


def two_arguments_for_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of two arguments of one of one."""

    @functools.wraps(function)
    def wrapper(session: Any, request: Request) -> Any:
        return function(request)

    return wrapper


def one_argument_for_two(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of one argument of one of two."""

    @functools.wraps(function)
    def wrapper(request: Request) -> Any:
        return function(request, "more")

    return wrapper


class Logged:
    """A decorator that is an object."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, request: Request) -> Any:
        """Call what it wraps."""
        return self._function(request)


class Foos:
    """Reconciles by methods, or by being called."""

    def sync(self, request: Request) -> None:
        """Do nothing."""

    @logged
    async def sync_async(self, request: Request) -> None:
        """Do nothing."""

    async def __call__(self, request: Request) -> None:
        """Do nothing."""


class LoggedFoos:
    """Reconciles by being called, through a decorator."""

    @logged
    async def __call__(self, request: Request) -> None:
        """Do nothing."""


class Steps:
    """Yields when it is called."""

    def __call__(self, _: Request) -> Iterator[None]:
        """Yield, as if each step were awaited."""
        yield


@pytest.mark.first_contact(19)
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (reconcile, False),
        (Foos().sync, False),
        (lambda _: None, False),
        (print, False),
        (functools.partial(two_arguments, more=""), False),
        (logged(reconcile), False),
        (Mock(), False),
        (reconcile_async, True),
        (functools.partial(reconcile_async), True),
        (functools.partial(logged(two_arguments_async), "more"), True),
        (logged(reconcile_async), True),
        (logged(logged(functools.partial(reconcile_async))), True),
        (functools.lru_cache(reconcile_async), True),
        (Logged(reconcile_async), True),
        (Foos(), True),
        (Foos().sync_async, True),
        (LoggedFoos(), True),
        (in_background(reconcile), True),
        (AsyncMock(), True),
    ],
)
def test_an_async_def_is_known_in_any_callable(function: Any, *, expected: bool) -> None:
    """The kind of the function decides whether a handler runs in a thread or on the loop."""
    Controller("foos", function)
    assert is_async(function) is expected


def test_a_function_that_wraps_itself_is_looked_at_once() -> None:
    """A mistake in a decorator does not keep the start from ending."""
    reconcile_twice = logged(reconcile)
    vars(reconcile_twice)["__wrapped__"] = reconcile_twice
    assert not is_async(reconcile_twice)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (5, "bad reconcile: 5 is not callable"),
        (two_arguments, "bad reconcile: two_arguments: missing a required argument: 'more'"),
        (
            two_arguments_for_one(reconcile),
            "bad reconcile: reconcile: missing a required argument: 'request'",
        ),
        (lambda: None, "bad reconcile: <lambda>: too many positional arguments"),
        (Foos, "bad reconcile: Foos: too many positional arguments"),
        (reconcile_in_steps, "bad reconcile: reconcile_in_steps is a generator function"),
        (functools.partial(reconcile_in_steps), "bad reconcile: reconcile_in_steps is a generator function"),
        (Steps(), "bad reconcile: Steps.__call__ is a generator function"),
        (reconcile_in_async_steps, "bad reconcile: reconcile_in_async_steps is an async generator function"),
    ],
)
def test_a_reconcile_that_does_not_fit_is_refused_at_construction(function: Any, message: str) -> None:
    """The function that will really be called counts, not the one that a decorator claims to wrap."""
    with pytest.raises(ConfigError) as caught:
        Controller("foos", function)
    assert str(caught.value) == f"{caught.value.place}: {message}. Give a function of one Request."


@pytest.mark.parametrize("function", [one_argument_for_two(two_arguments), logged(reconcile_in_steps)])
def test_a_function_that_a_decorator_makes_fit_is_taken(function: Any) -> None:
    """Its own arguments count, and a generator is its own business."""
    Controller("foos", function)


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (lambda: True, "bad predicate: <lambda>: too many positional arguments"),
        (reconcile_async, "bad predicate: reconcile_async is an async def"),
        (reconcile_in_steps, "bad predicate: reconcile_in_steps is a generator function"),
    ],
)
def test_a_predicate_that_would_let_everything_pass_is_refused(predicate: Any, message: str) -> None:
    """A coroutine is true; so is a generator. Combined with others, too."""
    for make in (
        lambda: For("v1/Pod", predicates=[predicate]),
        lambda: generation_changed & predicate,
        lambda: generation_changed | predicate,
    ):
        with pytest.raises(ConfigError) as caught:
            make()
        assert str(caught.value) == f"{message}. Give plain functions of one Event."


def test_one_predicate_needs_no_list() -> None:
    """Given by itself it is as a list of it, for the type checker, too."""
    assert For("v1/Pod", predicates=generation_changed) == For("v1/Pod", predicates=[generation_changed])


def test_keys_that_cannot_be_enqueued_are_refused() -> None:
    """A mapping function of the wrong arguments, or an async one, would stop its stream for ever."""
    with pytest.raises(
        ConfigError, match=r"bad keys of Watches\(v1/Pod\): two_arguments: missing .* Give a plain"
    ):
        Watches("v1/Pod", two_arguments)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ConfigError, match=r"bad keys of Watches\(v1/Pod\): reconcile_async is an async def"):
        Watches("v1/Pod", reconcile_async)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(
        ConfigError, match=r"bad keys of Every: reconcile: missing a required argument: 'request'"
    ):
        Every(10, reconcile)  # type: ignore[arg-type]  # what is tested
    Watches("v1/Pod", reconcile_in_steps)  # type: ignore[arg-type]  # it might yield keys
