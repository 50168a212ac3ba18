"""Every error that distq raises, and the two that handlers raise to it::

    DistqError
    ├── ConfigError                    wrong settings, arguments or environment
    │   ├── InvalidDelay               (also ValueError)
    │   ├── InvalidKey                 (also ValueError)
    │   ├── InvalidPriority            (also ValueError)
    │   └── InvalidQueueName           (also ValueError)
    ├── Empty                          nothing to claim in time (also queue.Empty)
    ├── ShutDown                       this handle was shut down
    ├── QueueFull                      the queue is at its max_length
    ├── QueueTaken                     another program works on the queue
    ├── LeaseLost                      another process leads
    ├── CacheNotSynced                 a cached watch was not listed in time
    ├── ReconcileFailed                in a test: .queue .key .attempt; the reconcile's own error is its cause
    ├── Unsettled                      stopped in time, but before all was settled or released
    ├── NoSlotLeft                     reconciles that hang have every slot of a process
    ├── Stalled                        a thread that must go on makes no progress
    ├── RedisError                     .retryable
    │   ├── RedisUnavailable           no answer: down, restarting, failing over
    │   ├── RedisRefused               a refusal: credentials, memory, wrong type
    │   ├── NotReplicated              added, but not yet on the replicas that were asked for
    │   ├── Unanswered                 whether it was settled is not known, and never will be
    │   └── LayoutTooNew               the queue was written by a newer distq
    └── ApiError                       .status .reason .causes .retry_after
        ├── NotFound
        ├── Conflict
        ├── Expired
        └── TooManyRequests

    TerminalError, RetryAfter          raised by reconcile functions

Messages are one line, ``what: cause. Remedy.``, and carry no secrets.

A ConfigError means that the program is wrong, and ends the part that cannot begin with it. An error that one
object causes, such as a name that is no key, ends nothing: a stream leaves the object out or parks it.
"""

import functools
import inspect
import queue
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from distq.seconds import Duration, in_seconds

Class = TypeVar("Class")


class DistqError(Exception):
    """The root of all errors of distq.

    ``place`` is the line of the program that an error is about, ``foos.py:12``, and the message begins with
    it. A ConfigError about a Controller, and one that ends the import of a target, have a place; others have
    "".
    """

    place = ""


class ConfigError(DistqError):
    """Settings, arguments or environment that cannot work."""


class InvalidDelay(ConfigError, ValueError):
    """A delay other than a finite number of seconds, 0 or more."""


class InvalidKey(ConfigError, ValueError):
    """A key that is empty, longer than 1024 bytes of UTF-8, or holds control characters."""


class InvalidPriority(ConfigError, ValueError):
    """A priority other than a whole number from -900 to 900."""


class InvalidQueueName(ConfigError, ValueError):
    """A queue name other than ``[A-Za-z0-9][A-Za-z0-9._-]{0,62}``."""


class Empty(DistqError, queue.Empty):
    """No item could be claimed before the timeout."""


class ShutDown(DistqError):
    """The handle was shut down; other handles may continue to claim items."""


class QueueFull(DistqError):
    """The queue is at its ``max_length``; it accepted the first ``accepted`` keys of the call.

    ``added`` of them were not pending before.
    """

    def __init__(self, message: str, *, added: int = 0, accepted: int = 0) -> None:
        super().__init__(message)
        self.added = added
        self.accepted = accepted


class QueueTaken(DistqError):
    """Another program works on the queue, for another resource or cluster; it would get keys of this one."""


class LeaseLost(DistqError):
    """This process no longer leads."""


class CacheNotSynced(DistqError):
    """A controller's lister waited for its cache, which was not complete within cache_sync_timeout."""


class ReconcileFailed(DistqError):
    """A reconcile failed under ``Sandbox.run_until_idle``; its ``__cause__`` is the error of the function."""

    def __init__(self, message: str, *, queue: str, key: str, attempt: int) -> None:
        super().__init__(message)
        self.queue = queue
        self.key = key
        self.attempt = attempt


class Unsettled(DistqError):
    """A Manager stopped in time, but before all items were settled or released: its items come back later."""


class NoSlotLeft(DistqError):
    """Every slot of a process is taken by a reconcile past ``max_hold``: only another process helps."""


class Stalled(DistqError):
    """A stream or a dispatcher of a process makes no progress: only another process helps."""


class RedisError(DistqError):
    """A call to Redis failed; ``retryable`` is true if a later try may succeed."""

    retryable = False


class RedisUnavailable(RedisError):
    """Redis gave no answer: it is down, restarting, loading, or failing over."""

    retryable = True


class RedisRefused(RedisError):
    """Redis answered no: wrong credentials, missing permission, full memory, a key of the wrong type."""


class NotReplicated(RedisError):
    """Keys are in the queue, but fewer replicas have them than ``wait_replicas`` asks for: ``replicas`` do.

    ``added`` of them were not pending before. A failover may lose them, unless they are added again.
    """

    retryable = True

    def __init__(self, message: str, *, added: int = 0, accepted: int = 0, replicas: int = 0) -> None:
        super().__init__(message)
        self.added = added
        self.accepted = accepted
        self.replicas = replicas


class Unanswered(RedisError):
    """Redis never answered a settlement, and no longer has its result; no later try can find out."""


class LayoutTooNew(RedisError):
    """The queue's data was written by a newer distq than this one."""


class StatusCause(NamedTuple):
    """One reason for which the API server refused a request; a part that the server does not name is "".

    ``reason`` is one word, such as FieldValueRequired or NamespaceTerminating, ``field`` a path such as
    ``spec.containers[0].image``. Source: apimachinery metav1.StatusCause.
    """

    reason: str
    message: str
    field: str


class ApiError(DistqError):
    """An answer of the Kubernetes API other than success; ``status`` 0 means that there was no answer.

    ``answer`` is the server's Status object, empty if it sent none; ``retry_after`` the seconds for which it
    asks to wait, None if it did not ask.
    """

    answer: Mapping[str, Any]
    retry_after: float | None

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        answer: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.answer = answer or {}
        self.retry_after = retry_after

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """Return the causes in the details of ``answer``; none if it names none."""
        return causes_of(self.answer)


def causes_of(answer: Mapping[str, Any]) -> tuple[StatusCause, ...]:
    """Return the causes of a Status object; none if it has other values in their place."""
    details = answer.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    return tuple(
        StatusCause(*(str(each.get(name) or "") for name in StatusCause._fields))
        for each in (causes if isinstance(causes, list) else ())
        if isinstance(each, Mapping)
    )


class NotFound(ApiError):
    """The object, or its resource, does not exist (404)."""


class Conflict(ApiError):
    """The object changed, or exists already (409)."""


class Expired(ApiError):
    """The resource version or continue token is too old (410)."""


class TooManyRequests(ApiError):
    """The API server asks for fewer requests (429); it asks for 1 second if it does not name a time."""

    retry_after: float

    def __init__(
        self,
        message: str,
        *,
        status: int = 429,
        reason: str = "",
        answer: Mapping[str, Any] | None = None,
        retry_after: float = 1.0,
    ) -> None:
        super().__init__(message, status=status, reason=reason, answer=answer, retry_after=retry_after)


class TerminalError(Exception):
    """Raise it from a reconcile function to park the item: retrying cannot help.

    Source: controller-runtime reconcile.TerminalError.
    """


class RetryAfter(Exception):
    """Raise it from a reconcile function to count a failure and retry after ``delay`` seconds.

    A delay below 0, NaN or infinite becomes a failure with that message, and backs off by the limiter.
    """

    def __init__(self, delay: Duration, message: str = "") -> None:
        self.delay = in_seconds(delay)
        shown = f"{self.delay:g}" if isinstance(self.delay, int | float) else repr(self.delay)
        super().__init__(message or f"retry after {shown} s")


def short_tracebacks(cls: type[Class]) -> type[Class]:
    """Remove distq's own frames from DistqErrors that leave the public methods of a class.

    The message names cause and remedy; twenty frames of distq above it would hide the caller's own line.
    """
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(cls, name, _shortened(member))
    return cls


def _shortened(method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(method):

        @functools.wraps(method)
        def iterate(*args: Any, **named: Any) -> Iterator[Any]:
            try:
                yield from method(*args, **named)
            except DistqError as error:
                raise error.with_traceback(None)  # noqa: B904 - it is the same error

        return iterate

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return method(*args, **named)
        except DistqError as error:
            raise error.with_traceback(None)  # noqa: B904 - it is the same error

    return call
