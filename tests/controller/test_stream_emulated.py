"""What the emulated API server does to a stream when asked, a real one after a minute or a restart."""

from pathlib import Path

import pytest

from distq.testing import EmulatedApiServer
from tests.controller.leading import Scene
from tests.controller.test_stream import change, create, position
from tests.support.api_servers import EmulatedServer
from tests.support.eventually import eventually
from tests.support.samples import config_map

pytestmark = [
    pytest.mark.parametrize("api_server", ["emulator"], indirect=True),
    pytest.mark.parametrize("redis_server", ["valkey9"], indirect=True),
]


def test_a_stream_of_expired_watches_goes_on(scene: Scene) -> None:
    """The API server forgetting everything in mid-watch costs a list, no event."""
    create(scene, "a")
    with scene.leading() as leader:
        scene.take()
        assert isinstance(scene.api_server, EmulatedServer)
        scene.api_server.emulator.restart_watches()
        create(scene, "b")
        eventually(lambda: scene.key("b") in scene.pending())
        change(scene, "a")
        eventually(lambda: scene.pending().keys() == {scene.key("a"), scene.key("b")})
        assert leader.error is None


def test_the_position_follows_bookmarks(scene: Scene, tmp_path: Path) -> None:
    """A quiet stream's checkpoint stays young, by commits without keys."""
    with EmulatedApiServer(bookmark_period=0.1) as server:
        quiet = Scene(server.kubeconfig(tmp_path / "kubeconfig"), scene.connection, "quiet")
        with quiet.leading() as leader:
            before = position(quiet)
            leader.client.create(config_map("default", "elsewhere"))
            eventually(lambda: int(position(quiet)) > int(before))
        assert quiet.pending() == {}
