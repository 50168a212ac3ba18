"""No form of a URL, right or wrong, lets its password be seen in settings, messages or tracebacks."""

import json
import traceback

import pytest

from distq.config import Settings
from distq.errors import DistqError
from distq.redisio.connection import Connection
from tests.cli.conftest import CommandLine, distq, imported_program, redis, valkey  # noqa: F401 - fixtures

SECRET = "s3cr3t"
NOWHERE = "127.0.0.1:1"
URLS = [
    *(f"redis://me:{SECRET}@{NOWHERE}/0", f"rediss://:{SECRET}@{NOWHERE}", f"unix://me:{SECRET}@/none?db=0"),
    *(f"redis://{NOWHERE}/0?password={SECRET}", f"redis://{NOWHERE}?username=me&password={SECRET}"),
    *(f"redis://me:%73%33cr3t@{NOWHERE}/0", f"redis://me%3A{SECRET}@{NOWHERE}/0"),
    # special characters that were not encoded
    *(f"redis://me:{SECRET}{mark}{SECRET}@{NOWHERE}/0" for mark in "@/?#:&%"),
    *(f"redis://me:1{mark}{SECRET}@{NOWHERE}/0" for mark in "/?#"),
    *(f"redis://{NOWHERE}/0?password=a@{SECRET}", f"redis://{NOWHERE}/0#{SECRET}"),
    # what is not supported, or no URL of Redis
    f"redis+sentinel://me:{SECRET}@a:1,b:2/main/0?sentinel_password={SECRET}",
    *(f"redis+sentinel://me:{SECRET}@a:1,me:{SECRET}@b:2/main", f"redis+cluster://:{SECRET}@a,b"),
    *(f"http://me:{SECRET}@{NOWHERE}", f"me:{SECRET}@{NOWHERE}", f"redis:me:{SECRET}@h", f"{SECRET}://h"),
    *(f"redis//me:{SECRET}@h", f"redis://me:{SECRET}", f"redis:/me:{SECRET}@h", SECRET, f"me:{SECRET}://h"),
    # other mistakes
    *(f"redis://me:{SECRET}@h:99999", f"redis://me:{SECRET}@h/first", f"redis://me:{SECRET}@[::1"),
    *(f"redis://me:{SECRET}@h?socket_timeout=x", f"redis://me:{SECRET}@h?none=1"),
]


@pytest.mark.parametrize("url", URLS)
def test_settings_and_messages_show_no_secret(url: str) -> None:
    """Nor a part of it, nor its encoded form."""
    settings = Settings(redis_url=url, redis_password=SECRET)
    connection = Connection(settings=settings)
    connection._pauses = (0.0,)  # it tries again as it would, at once
    with pytest.raises(DistqError) as caught:
        connection.execute("PING")
    lines = traceback.format_exception(caught.value)
    shown = "\n".join([repr(settings), str(settings.masked()), repr(connection), *lines, *found(connection)])
    assert [word for word in ("s3c", "r3t", "%73") if word in shown] == []


def found(connection: Connection) -> list[str]:
    """Return what ``distq check`` would print."""
    try:
        return connection.check()
    except DistqError as error:
        return [str(error)]


def test_texts_that_are_no_secret_stay() -> None:
    """User, place and database help to find mistakes; settings show what was chosen."""
    for url, shown in {
        "redis://me:a@[::1]:6379/2?ssl=1": "redis://me:***@[::1]:6379/2?***",
        "redis+sentinel://me:a@a:1,b:2/main/0": "redis+sentinel://me:***@a:1,b:2/main/0",
        "unix:///run/redis.sock?db=1": "unix:///run/redis.sock?***",
        "redis://worker@db": "redis://worker@db",
    }.items():
        assert Settings(redis_url=url).masked()["redis_url"] == shown
    assert repr(Settings(redis_url="redis://db", redis_password=SECRET, concurrency=2)) == (
        "Settings(redis_url='redis://db', redis_password='***', concurrency=2)"
    )


@pytest.mark.parametrize("url", [f"redis://h/0?password=a@{SECRET}", f"redis://me:{SECRET}/x@h"])
def test_the_settings_in_force_show_no_secret(distq: CommandLine, url: str) -> None:  # noqa: F811
    """As a table and as JSON, from the flag and the variable."""
    for done in (
        distq("queues", "--show-config", DISTQ_REDIS_URL=url),
        distq("queues", "--show-config", "--json", "--redis-url", url, "--redis-password", SECRET),
    ):
        assert done.returncode == 0
        assert "s3c" not in done.stdout + done.stderr
    assert json.loads(done.stdout)["redis_url"] == "***"
