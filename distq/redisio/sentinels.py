"""The primary, from the answers of Sentinels, for each new connection and every second of use.

So every connection follows a failover: those of the pool, the one that sleeps, and those of heartbeats.
Sentinels demote the old primary some ten seconds after they have promoted another one. Writes that it accepts
until then are lost, so distq does not wait for it to refuse them.
"""

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis
from redis.connection import AbstractConnection

from distq.redisio.pool import ask_once
from distq.redisio.redis_url import Place, UnknownPlace, shown

_REFUSED = re.compile(
    "WRONGPASS|NOAUTH|NOPERM|invalid username-password|Authentication required|any password"
)


_PERIOD = 1.0
"""Seconds for which an answer of the Sentinels counts."""


class Sentinels:
    """The Sentinels of one service; the one with the last right answer comes first."""

    def __init__(
        self, places: Sequence[Place], service: str, open_connection: Callable[[Place], AbstractConnection]
    ) -> None:
        self._places = tuple(places)
        self._service = service
        self._open = open_connection
        self._latest: Place | None = None
        self._ask_again_at = 0.0

    def latest(self) -> Place | None:
        """Return the primary as of a second ago; None if no Sentinel has named one yet."""
        began = time.monotonic()
        if began >= self._ask_again_at:
            self._ask_again_at = began + _PERIOD  # other threads need not wait for the answer
            with contextlib.suppress(UnknownPlace):
                self.primary()
            took = time.monotonic() - began  # Sentinels that are slow take a sixth of the time at most
            self._ask_again_at = time.monotonic() + max(_PERIOD, 5 * took)
        return self._latest

    def primary(self) -> Place:
        """Return the primary; raise UnknownPlace if no Sentinel names one."""
        causes: list[str] = []
        n_refused = n_answers = 0
        for place in self._places:
            try:
                answer = self._ask(place)
            except (redis.RedisError, OSError) as error:
                text = str(error).rstrip(".")
                answered = isinstance(error, redis.ResponseError | redis.AuthenticationError)
                n_answers += answered
                n_refused += answered and _REFUSED.search(text) is not None
                causes.append(text if not answered else f"{shown((place,))} says {text}")
                continue
            if answer is not None:
                self._places = (place, *(other for other in self._places if other != place))
                self._latest = answer
                return answer
            n_answers += 1
            causes.append(f"{shown((place,))} has no such service")
        raise UnknownPlace(
            f'no Sentinel of {shown(self._places)} knows a primary "{self._service}": '
            + "; ".join(dict.fromkeys(causes)),
            refused=bool(n_refused) and n_refused == n_answers,  # else a Sentinel may know it soon
        )

    def distrust(self) -> None:
        """Ask another Sentinel first from now on: this one named a server that is no primary."""
        first, *others = self._places
        self._places = (*others, first)

    def _ask(self, place: Place) -> Place | None:
        found = ask_once(self._open(place), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
        return None if found is None else (found[0].decode(), int(found[1]))


def following(connection_class: type[AbstractConnection]) -> type[AbstractConnection]:
    """Return a class of connections that ask the Sentinels for the primary each time they connect."""

    class PrimaryConnection(connection_class):  # type: ignore[misc, valid-type]
        def __init__(self, *, sentinels: Sentinels, **options: Any) -> None:
            super().__init__(**options)
            self._sentinels = sentinels

        def _connect(self) -> Any:
            self.host, self.port = self._sentinels.primary()
            return super()._connect()

    return PrimaryConnection
