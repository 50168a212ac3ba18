"""Maps redis-py's errors to distq's: the server did not answer, or it refused."""

import re
import ssl
from collections.abc import Sequence
from typing import Any

import redis
from redis import exceptions

from distq.errors import RedisError, RedisRefused, RedisUnavailable
from distq.redisio import wrong_type
from distq.redisio.address import Address, NoPassword
from distq.redisio.kernel_timeout import is_silence
from distq.redisio.redis_url import UnknownPlace

_COMES_BACK = re.compile(
    r"\b(?:LOADING|BUSY|READONLY|NOREPLICAS|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MISCONF|UNBLOCKED)\b"
    "|is loading the data"
)
"""Answers of a server that did nothing and may do it soon; scripts and redis-py pass them on as text."""

_KINDS_THAT_COME_BACK = (
    exceptions.BusyLoadingError,
    exceptions.ReadOnlyError,
    exceptions.MasterDownError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
)

_DENIED = re.compile("NOPERM|ACL failure in script|The user executing the script can't")
"""Answers to a user who lacks a right, also within a script."""

_MISSING = re.compile("(?i)unknown (?:sub)?command|command not allowed|is not supported")
"""Answers of a server that lacks a command, as some managed services do."""

_SCRIPT = re.compile(r" script: (?:\w+, )?on @user_script:\d+\.?$")
"""The end of an error in a script, with its hash and line."""

_NOT_TRUSTED = "certificate not trusted"

_REFUSED_USER = (exceptions.AuthenticationError, exceptions.AuthenticationWrongNumberOfArgsError)


def typed_error(error: Exception, address: Address) -> RedisError:
    """Return the typed error for one of redis-py's: it names the failure, its cause, and a remedy."""
    text = _one_line(error)
    if isinstance(error, UnknownPlace):
        return _unknown_place(text, error, address)
    if "without any password configured" in text:
        return RedisRefused(
            f'Redis at {address.where} refused user "{address.user}": '
            "a password was given where none is set. Leave it out of the URL and of DISTQ_REDIS_PASSWORD."
        )
    if isinstance(error, _REFUSED_USER) or text.startswith(("WRONGPASS", "NOAUTH")):
        return RedisRefused(
            f'Redis at {address.where} refused user "{address.user}": '
            f"{'no password given' if 'required' in text or 'NOAUTH' in text else 'wrong password'}. "
            f"Check {address.password_origin}."
        )
    if isinstance(error, exceptions.NoPermissionError) or _DENIED.search(text):
        return RedisRefused(
            f'Redis at {address.where} denied user "{address.user}": {text}. See "distq check".'
        )
    if isinstance(error, exceptions.OutOfMemoryError) or "OOM " in text:
        return RedisRefused(
            f"Redis at {address.where} is full: {text}. Raise maxmemory or let workers drain it."
        )
    if isinstance(error, _KINDS_THAT_COME_BACK) or (
        isinstance(error, redis.ResponseError) and _COMES_BACK.search(text)
    ):
        return RedisUnavailable(f"Redis at {address.where} is not ready: {text}. It may be soon.")
    if "WRONGTYPE" in text:
        return RedisRefused(
            f"Redis at {address.where} refused a command: {text}. Was its data changed by hand? "
            f"{wrong_type.remedy(text)}, and all goes on."
        )
    if isinstance(error, redis.ResponseError):
        return RedisRefused(
            f"Redis at {address.where} refused a command: {text}. Was its data changed by hand?"
        )
    if isinstance(error, exceptions.DataError):  # redis-py's own: nothing left this process
        return RedisRefused(f"nothing sent to Redis at {address.where}: {text}. Give plain text and numbers.")
    if isinstance(error, NoPassword):
        return RedisUnavailable(f"cannot log in to Redis at {address.where}: {text}.")
    return RedisUnavailable(_unreachable(error, address))


def _unknown_place(text: str, error: UnknownPlace, address: Address) -> RedisError:
    remedy = (
        "Check the service's name, and DISTQ_REDIS_SENTINEL_PASSWORD"
        if address.url.topology == "sentinel"
        else "Check its URL; redis:// is for one server"
    )
    return (RedisRefused if error.refused else RedisUnavailable)(f"{text}. {remedy}.")


def concerns_one_key(error: BaseException | None) -> bool:
    """Return whether a server refused a command because of its key: its type, or a missing right to it."""
    return isinstance(error, exceptions.NoPermissionError) or "WRONGTYPE" in str(error)


def refusals_typed(replies: Sequence[Any], address: Address) -> list[Any]:
    """Return the replies of a server, with typed errors for the refused ones."""
    return [
        _with_context(typed_error(reply, address), reply) if isinstance(reply, redis.ResponseError) else reply
        for reply in replies
    ]


def _with_context(error: RedisError, cause: Exception) -> RedisError:
    error.__context__ = cause  # as if it had been raised: its context is redis-py's error
    return error


def is_denied(error: RedisError) -> bool:
    """Return whether it is refused for good: our user lacks the right, or the server lacks the command."""
    text = str(error.__context__)
    return isinstance(error.__context__, exceptions.NoPermissionError) or bool(_MISSING.search(text))


def is_read_only(error: Exception) -> bool:
    """Return whether a replica answered in place of the primary."""
    return isinstance(error, exceptions.ReadOnlyError) or (
        isinstance(error, redis.ResponseError) and "READONLY" in str(error)
    )


def _unreachable(error: Exception, address: Address) -> str:
    what = f"no Redis at {address.where}"
    cause = _cause(error)
    if cause.startswith(_NOT_TRUSTED):
        return f"{what}: {cause}. Set DISTQ_REDIS_CA_FILE to the certificate of its authority."
    if address.origin == "unset":
        return f'{what} (DISTQ_REDIS_URL unset): {cause}. Set it or try "distq sandbox".'
    return f"{what}: {cause}. {'Check DISTQ_REDIS_URL' if address.origin == 'variable' else 'Check its URL'}."


def _cause(error: BaseException) -> str:
    """Return the shortest correct cause: the operating system's words if it has some."""
    if isinstance(error, exceptions.InvalidResponse):
        return "the server there is no Redis"
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ssl.SSLCertVerificationError):
            return f"{_NOT_TRUSTED}, {inner.verify_message}"
        if isinstance(inner, OSError) and inner.strerror and not isinstance(inner, BlockingIOError):
            return inner.strerror.lower()
        inner = inner.__cause__ or inner.__context__
    if "reading" in str(error):  # it timed out, or found an empty socket: BlockingIOError
        return "connected, but no answer"
    if is_silence(error):
        return "no answer in time"
    return _one_line(error).lower() or type(error).__name__


def _one_line(error: BaseException) -> str:
    """Return the server's message, without its remarks on the script."""
    return _SCRIPT.sub("", " ".join(str(error).split())).rstrip(".")
