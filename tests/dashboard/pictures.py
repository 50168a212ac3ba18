"""Pictures of the pages: for who looks at a build, and for the documentation.

``python -m tests.dashboard.pictures`` draws the documentation's anew.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from distq.redisio.connection import Connection
from distq.testing.embedded_valkey import EmbeddedValkey
from tests.dashboard.chromium import Browser, browser
from tests.dashboard.conftest import dashboard_of
from tests.dashboard.scene import play
from tests.support.parts import program

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "screenshots"
SHOWN = ROOT / "docs" / "pictures"
PATHS = {
    "queues": "/",
    "queue": "/queues/websites?state=dead",
    "item": "/queues/websites/items/prod~2Fcheckout",
    "search": "/queues/websites?match=prod/s",
    "workers": "/workers",
    "informers": "/informers",
    "nothing": "/queues/nowhere",
}
"""The pages of the scene, by what their pictures are called."""
IN_DOCS = {"queues": 320, "queue": 1320, "item": 900}
"""What the documentation shows, and how many pixels of its height."""


def draw_for_docs(window: Browser, url: str) -> None:
    """Write the documentation's pictures, light and dark, of 1,100 pixels."""
    for dark in (False, True):
        for name, height in IN_DOCS.items():
            window.size(1100, height, dark=dark)
            window.open(url + PATHS[name])
            window.picture(SHOWN / f"dashboard-{name}{'-dark' if dark else ''}.webp", whole=False)


def main() -> None:
    """Draw them on a scene of its own."""
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedValkey())
        connection = Connection(server.url)
        stack.callback(connection.close)
        play(connection, stack)
        url, _ = stack.enter_context(dashboard_of(server.url))
        profile = stack.enter_context(tempfile.TemporaryDirectory())
        chromium = program("chromium", "chromium-browser", "google-chrome", package="chromium")
        draw_for_docs(stack.enter_context(browser(chromium, Path(profile))), url)


if __name__ == "__main__":
    main()
