"""The least Redis permissions that each kind of process needs, as rules of Redis' ACL.

Redis checks each command of a script as if the caller had sent it, so a role has the commands of its scripts,
too. Redis cannot check which script it is: a user with a role may run any script with the same commands on
the same keys.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from distq.redisio import scripts
from distq.redisio.keys import (
    election_key,
    ended_login_key,
    queue_key,
    queues_key,
    validate_queue_name,
)

_ANY = "*"


@dataclass(frozen=True)
class Role:
    """The calls of one kind of process: scripts by their names, and further commands as ACL rules."""

    scripts: tuple[str, ...]
    commands: str
    keys: Literal["queues", "elections", "logins"] = "queues"
    """The kind of its keys."""

    def granted(self) -> set[str]:
        """Return all its permissions, as rules without their plus."""
        of_scripts = [scripts.load(script).commands for script in self.scripts]
        loads = {"evalsha", "script|load"} if self.scripts else set()
        return loads.union({"info", "ping"}, self.commands.split(), *of_scripts)


_KNOW = "hexists hget time "
"""Reads whether the queue exists, its layout, and the server's time."""
_COUNT = "hget hlen zcard zcount zrangebyscore time "
_HANDLE = _KNOW + _COUNT + "hsetnx zscore "
"""The reads of every handle of a Queue, and its one write outside of scripts: its queue's name."""
_LOOK = _COUNT + (
    "hgetall hkeys hmget hscan xrange xrevrange zmscore zrange zrevrange zrevrangebyscore zscan "
)

ROLES = {
    "producer": Role(("add", "add_after", "fair_by"), _HANDLE),
    "worker": Role(
        (
            *("add", "add_after", "cache/read", "cache/write", "close", "fair_by", "forget"),
            *("forgive", "heartbeat", "open", "turn"),
        ),
        _HANDLE + "blpop client|id client|unblock hgetall hmget",
    ),
    "informer": Role(
        ("cache/read", "catch_up", "caught_up", "commit", "fair_by"),
        _KNOW + _COUNT + "hgetall hmget hscan hsetnx zrangebylex zrevrangebyscore zscan",
    ),
    "viewer": Role((), _LOOK),
    "operator": Role(
        ("add", "add_after", "commit", "delete", "park", "pause", "requeue", "resume", "share", "trace"),
        _LOOK + "hexists xadd xdel",
    ),
    "candidate": Role(("election/write",), "hmget", keys="elections"),
    "login": Role((), "exists setex", keys="logins"),
}
"""A program that only adds; the two sides of a controller; a user who only reads, and one who repairs, too;
a RedisLock; a dashboard with logins."""


def user_of(
    roles: Sequence[str],
    *,
    prefix: str,
    queues: Sequence[str] = (),
    database: int = 0,
    cluster: bool = False,
) -> str:
    """Return the command that makes the Redis user of some roles, for some queues or all of the prefix.

    ``PASSWORD`` is in place of the password. Raises InvalidQueueName.
    """
    chosen = [ROLES[role] for role in roles]
    keys = dict.fromkeys(pattern for role in chosen for pattern in _patterns(role, prefix, queues))
    commands = set().union(*(role.granted() for role in chosen))
    if database:
        commands.add(f"select|{database}")
    if cluster:
        commands |= {"asking", "cluster|slots"}
    rules = [*(f"~{pattern}" for pattern in keys), *(f"+{command}" for command in sorted(commands))]
    return f"ACL SETUSER {prefix}-{'-'.join(roles)} reset on >PASSWORD resetchannels {' '.join(rules)}"


def _patterns(role: Role, prefix: str, queues: Sequence[str]) -> Iterator[str]:
    """Yield patterns for the names of its keys; no queue name has a character with a meaning in patterns."""
    if role.keys != "queues":
        key = election_key if role.keys == "elections" else ended_login_key
        yield key(_ANY, prefix=prefix)
        return
    for queue in map(validate_queue_name, queues) if queues else [_ANY]:
        yield queue_key(queue, _ANY, prefix=prefix)
    yield queues_key(prefix)
