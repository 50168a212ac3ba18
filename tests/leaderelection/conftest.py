"""What the tests of elections share: participants whose time the tests let pass."""

from collections.abc import Iterator
from typing import Any

import pytest

from distq.client import Client
from distq.leaderelection import LeaseLock
from tests.leaderelection.participants import LEASE, Enter, Participant, PausableClock, end_all
from tests.support.api_servers import ApiServer


@pytest.fixture
def client(api_server: ApiServer) -> Client:
    """Give an administrator's client."""
    return api_server.client()


@pytest.fixture
def enter(api_server: ApiServer, namespace: str) -> Iterator[Enter]:
    """Give a function that makes participants, and end them all after the test."""
    entered: list[Participant] = []
    client = api_server.client()

    def make(identity: str, kind: type[LeaseLock] = LeaseLock, **settings: Any) -> Participant:
        lock = kind(client, namespace, LEASE, identity=identity)
        made = Participant(lock, **({"clock": PausableClock()} | settings))
        entered.append(made)
        return made

    yield make
    end_all(entered)
