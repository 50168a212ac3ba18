"""What a process says of sessions that it lost: it lives, so nothing that they held crashed it."""

import logging
from collections.abc import Mapping

from distq.errors import RedisError
from distq.redisio.limits import REPAIR_LIMIT
from distq.redisio.queue_store import QueueStore

_logger = logging.getLogger("distq.queue")


class LostSessions:
    """The lost sessions of one handle, until Redis took back what it had counted against their items.

    They lapsed while the process stood still or was cut off. One that died says nothing: that is a crash.
    """

    def __init__(self) -> None:
        self._fences: dict[str, Mapping[str, int]] = {}
        """The fences of what each held, by key."""

    def add(self, session: str, fences: Mapping[str, int]) -> None:
        """Note a session that was lost with these claims."""
        self._fences[session] = fences

    def forgive(self, store: QueueStore) -> None:
        """Let Redis take back what it counted; what fails is tried again by the next call."""
        try:
            for session, fences in list(self._fences.items()):
                claims = list(fences.items())
                for start in range(0, len(claims), REPAIR_LIMIT):
                    some = claims[start : start + REPAIR_LIMIT]
                    store.run("forgive", session=session, held=[part for claim in some for part in claim])
                del self._fences[session]
        except RedisError as error:
            _logger.warning("queue %s: what its lost session held counts as crashed: %s", store.name, error)
