"""The functions that a program gives: whether they fit, and whether they are coroutine functions.

The checks look at the function that will be called: that of a ``functools.partial``, the ``__call__`` of an
object, the decorator's for a decorated function.
"""

import functools
import inspect
import types
from collections.abc import Awaitable
from typing import Any, TypeVar

from distq.errors import ConfigError

Answer = TypeVar("Answer")

_ASYNC_GENERATOR = (inspect.isasyncgenfunction, "an async generator function")
_GENERATORS = (_ASYNC_GENERATOR, (inspect.isgeneratorfunction, "a generator function"))
_COROUTINES = ((inspect.iscoroutinefunction, "an async def"),)


def is_async(function: object) -> bool:
    """Return whether calling it gives a coroutine: an ``async def`` in any layer."""
    layers = [function]
    for layer in layers:  # the loop appends to it
        if inspect.iscoroutinefunction(layer):
            return True
        # a wrapper by functools.wraps returns the coroutine of the async def
        wrapped = getattr(layer, "__dict__", {}).get("__wrapped__")
        inner = [one for one in (_called_by(layer), wrapped) if one is not None]
        layers += [one for one in inner if not any(one is known for known in layers)]
    return False


def require_reconcile(function: object) -> None:
    """Require a reconcile function: a plain function or ``async def`` of one Request."""
    _require("reconcile", function, 1, "Give a function of one Request.", *_GENERATORS)


def require_predicate(function: object) -> None:
    """Require a predicate: any coroutine or generator would count as true."""
    _require("predicate", function, 1, "Give plain functions of one Event.", *_GENERATORS, *_COROUTINES)


def require_keys(what: str, function: object, *, arguments: int) -> None:
    """Require a function that returns keys; a generator function may yield them."""
    of = "of one object" if arguments else "without arguments"
    remedy = f"Give a plain function {of} that returns keys."
    _require(f"keys of {what}", function, arguments, remedy, _ASYNC_GENERATOR, *_COROUTINES)


def require_of_object(what: str, function: object) -> None:
    """Require a plain function of one object, no coroutine or generator function."""
    _require(what, function, 1, "Give a plain function of one object.", *_GENERATORS, *_COROUTINES)


def require_hook(what: str, function: object) -> None:
    """Require a hook: a plain function or ``async def`` without arguments; a generator would do nothing."""
    _require(what, function, 0, "Give a function without arguments.", *_GENERATORS)


def require_runnable(function: object) -> None:
    """Require a runnable: a plain function of one Event, or an ``async def``."""
    if is_async(function):
        _require("runnable", function, 0, "Give an async def without arguments.")
    else:
        _require("runnable", function, 1, "Give a function of one Event, or an async def.", *_GENERATORS)


def require_check(what: str, function: object) -> None:
    """Require a plain function without arguments, whose answer a thread waits for."""
    _require(what, function, 0, "Give a plain function without arguments.", *_GENERATORS, *_COROUTINES)


def name_of(function: object) -> str:
    """Return the name of a function in log lines."""
    return str(getattr(function, "__qualname__", f"{function!r:.80}"))


async def as_coroutine(answer: Awaitable[Answer]) -> Answer:
    """Return the result of an awaitable: a loop takes coroutines alone."""
    return await answer


def _require(what: str, function: object, arguments: int, remedy: str, *refused: Any) -> None:
    _require_arguments(what, function, arguments, remedy)
    while (inner := _called_by(function)) is not None:
        function = inner
    for is_one, kind in refused:
        if is_one(function):
            raise ConfigError(f"bad {what}: {name_of(function)} is {kind}. {remedy}")


def _require_arguments(what: str, function: object, number: int, remedy: str) -> None:
    if not callable(function):
        raise ConfigError(f"bad {what}: {function!r:.80} is not callable. {remedy}")
    try:
        signature = inspect.signature(function, follow_wrapped=False)  # of the decorator, which is called
    except (ValueError, TypeError):  # some builtins have none to look at
        return
    try:
        signature.bind(*[object()] * number)
    except TypeError as error:
        raise ConfigError(f"bad {what}: {name_of(function)}: {error}. {remedy}") from None


def _called_by(function: object) -> Any:
    """Return the function that a call of this one runs, one layer down; None if it runs itself."""
    if isinstance(function, functools.partial):
        return function.func
    if isinstance(function, types.MethodType):
        return function.__func__
    call = None if isinstance(function, type) else getattr(type(function), "__call__", None)  # noqa: B004
    # the __call__ of a plain function is Python's own
    return None if isinstance(call, types.WrapperDescriptorType) else call
