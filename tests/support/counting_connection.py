"""A Connection that counts how often it waits for the server."""

from collections.abc import Sequence
from typing import Any

from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile


class CountingConnection(Connection):
    """A Connection that counts its round trips, but those of its first use."""

    round_trips = 0

    def execute(self, *command: Argument, near: str | None = None) -> Any:
        """Count one."""
        self.round_trips += 1
        return super().execute(*command, near=near)

    def evaluate_and(
        self,
        source: str,
        sha: str,
        arguments: Sequence[Argument],
        *then: Sequence[Argument],
        meanwhile: Meanwhile = None,
    ) -> list[Any]:
        """Count one."""
        self.round_trips += 1
        return super().evaluate_and(source, sha, arguments, *then, meanwhile=meanwhile)

    def pipeline(self, commands: Sequence[Sequence[Argument]], *, keep_refusals: bool = False) -> list[Any]:
        """Count one."""
        self.round_trips += 1
        return super().pipeline(commands, keep_refusals=keep_refusals)
