"""What the controller's tests share."""

import pytest

from distq.controller import shutdown
from distq.redisio.connection import Connection
from tests.controller.leading import Scene
from tests.informer.conftest import proxied  # noqa: F401  a fixture
from tests.support.api_servers import ApiServer


@pytest.fixture
def scene(api_server: ApiServer, namespace: str, connection: Connection) -> Scene:
    """Give a namespace of a cluster and an empty Redis."""
    return Scene(api_server.kubeconfig, connection, namespace, api_server)


@pytest.fixture(autouse=True)
def patient_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Managers of this process close in their own time: most tests are not about it."""
    monkeypatch.setattr(shutdown, "CLOSING_TIME", 30.0)
