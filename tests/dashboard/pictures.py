"""Pictures of the pages and of the demo: for reviewers of a build, and for the documentation.

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
from tests.dashboard.terminal import page, screen
from tests.proofs.first_contact.conftest import Desk
from tests.support.parts import program

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "screenshots"
SHOWN = ROOT / "docs" / "pictures"
PATHS = {
    "queues": "/",
    "queue": "/queues/websites?state=dead",
    "failing-items": "/queues/websites?state=failing",
    "failing": "/failing",
    "find": "/find?key=prod/checkout",
    "item": "/queues/websites/items/prod~2Fcheckout",
    "search": "/queues/websites?match=prod/s",
    "workers": "/workers",
    "informers": "/informers",
    "audit": "/audit",
    "nothing": "/queues/nowhere",
}
"""The pages of the scene, by what their pictures are called."""
IN_DOCS = {"queues": 440, "queue": 1320, "item": 900}
"""What the documentation shows, and how many pixels of its height."""


def draw_for_docs(window: Browser, url: str) -> None:
    """Write the documentation's pictures, light and dark, of 1,100 pixels."""
    for dark in (False, True):
        for name, height in IN_DOCS.items():
            window.size(1100, height, dark=dark)
            window.open(url + PATHS[name])
            window.picture(SHOWN / f"dashboard-{name}{'-dark' if dark else ''}.webp", whole=False)


def draw_demo(window: Browser, folder: Path) -> None:
    """Run ``distq demo`` at a terminal, and write what it leaves there, light and dark."""
    desk = Desk(folder)
    terminal = desk.open("distq", "demo")
    try:
        status = terminal.wait()
    finally:
        desk.clear()
    if status:
        raise SystemExit(f"no picture of a demo that failed:\n{terminal.shown}")
    drawn = folder / "demo.html"
    drawn.write_text(page("distq demo", screen(terminal.raw)))
    window.open(drawn.as_uri())
    box = window.run("(box => [box.width, box.height])(document.body.getBoundingClientRect())")
    width, height = (2 * round(side / 2) for side in box)  # whole pixels at this scale, too
    for dark in (False, True):
        window.size(width, height, dark=dark, scale=1.5)
        window.picture(SHOWN / f"demo{'-dark' if dark else ''}.webp", whole=False)


def main() -> None:
    """Draw them on a scene of its own."""
    chromium = program("chromium", "chromium-browser", "google-chrome", package="chromium")
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedValkey())
        connection = Connection(server.url)
        stack.callback(connection.close)
        play(connection, stack)
        url, _ = stack.enter_context(dashboard_of(server.url))
        profile, folder = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        window = stack.enter_context(browser(chromium, profile))
        draw_for_docs(window, url)
        draw_demo(window, folder)


if __name__ == "__main__":
    main()
