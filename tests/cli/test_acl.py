"""``distq check --acl`` prints the Redis user of a role; ``tests/redisio/test_roles.py`` is such a user."""

from distq.redisio.roles import user_of
from tests.cli.conftest import CommandLine


def test_a_roles_user_is_printed(distq: CommandLine) -> None:
    """One line, to paste, with queues, prefix and database of the settings; Redis is not asked."""
    settings = {"DISTQ_PREFIX": "blue", "DISTQ_REDIS_URL": "redis://127.0.0.1:1/3"}
    done = distq("check", "--acl", "worker", "--queue", "foos", "--queue", "bars", **settings)
    assert done.stdout == user_of(["worker"], prefix="blue", queues=["foos", "bars"], database=3) + "\n"
    assert "~blue:{foos}:* ~blue:{bars}:* ~blue:queues" in done.stdout
    assert " +select|3 " in done.stdout


def test_several_roles_are_one_user(distq: CommandLine) -> None:
    """For a process that is both, of all queues."""
    done = distq("check", "--acl", "informer", "--acl", "worker")
    assert done.stdout == user_of(["informer", "worker"], prefix="distq") + "\n"


def test_arguments_that_make_no_user_are_refused(distq: CommandLine) -> None:
    """No role, another one, a queue without one, and a name that is no queue's."""
    for arguments in (["--acl"], ["--acl", "root"], ["--queue", "foos"], ["--acl", "worker", "--queue", "*"]):
        done = distq("check", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("distq: ")
