"""What the controller's tests share."""

import pytest

from distq.redisio.connection import Connection
from tests.controller.leading import Scene
from tests.informer.conftest import proxied, proxy  # noqa: F401 - fixtures
from tests.support.api_servers import ApiServer


@pytest.fixture
def scene(api_server: ApiServer, namespace: str, connection: Connection) -> Scene:
    """Give a namespace of a cluster and an empty Redis."""
    return Scene(api_server.kubeconfig, connection, namespace, api_server)
