"""The sessions that a live process lost: their items did not crash it, so Redis removes their crashes."""

import logging
from collections.abc import Mapping

from distq.errors import RedisError
from distq.redisio.limits import REPAIR_LIMIT
from distq.redisio.queue_store import QueueStore

_logger = logging.getLogger("distq.queue")


class LostSessions:
    """The lost sessions of one handle, until Redis has removed the crashes of their items.

    They lapsed while the process was frozen or cut off. A dead process reports nothing: its crashes stay.
    """

    def __init__(self) -> None:
        self._fences: dict[str, Mapping[str, int]] = {}
        """For each session the fences of its claims, by key."""

    def add(self, session: str, fences: Mapping[str, int], store: QueueStore) -> None:
        """Note a session that was lost with these claims, and ``forgive``."""
        self._fences[session] = fences
        self.forgive(store)

    def forgive(self, store: QueueStore) -> None:
        """Let Redis remove the crashes; after an error the next call tries again."""
        try:
            for session, fences in list(self._fences.items()):
                claims = list(fences.items())
                for start in range(0, len(claims), REPAIR_LIMIT):
                    some = claims[start : start + REPAIR_LIMIT]
                    store.run("forgive", session=session, held=[part for claim in some for part in claim])
                del self._fences[session]
        except RedisError as error:
            _logger.warning("queue %s: the items of its lost session count as crashed: %s", store.name, error)
