"""The command ``distq top``: queues and their items, live in a terminal, with repairs that are a key away."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from distq.cli.audit import operator_of
from distq.cli.options import Seconds, command, with_settings
from distq.cli.output import bar, escape
from distq.cli.queue_access import inspector_of
from distq.cli.queues import LONGEST_INTERVAL
from distq.cli.signals import leave_on_signals
from distq.config import Settings
from distq.errors import ConfigError, DistqError
from distq.wording import counted

if TYPE_CHECKING:
    from distq.cli.top.pages import TablePage
    from distq.cli.top.screen import Screen
    from distq.inspector import Inspector, Repair


class _Question(NamedTuple):
    """A question before a repair; ``act`` does it, and yields progress."""

    text: str
    act: Callable[[], Iterator[str]]


@command("distq top")
@click.option("--interval", type=Seconds(min=0.1), default=2.0, show_default=True, help="Seconds.")
@with_settings()
def top(*, settings: Settings, as_json: bool, interval: float) -> None:
    """Watch all queues and their items in this terminal, and repair them by a key."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if as_json or not is_terminal:
        raise ConfigError('"distq top" needs a terminal. Use "distq queues --watch", which prints lines.')
    from distq.cli.top.screen import Screen

    leave_on_signals()
    inspector = inspector_of(settings)
    inspector.queues()  # raises its error before the screen is taken
    with Screen() as screen:
        Top(inspector, screen).run(interval)


class Top:
    """The pages that are open, and what is asked or was done last."""

    def __init__(self, inspector: "Inspector", screen: "Screen") -> None:
        from distq.cli.top.pages import QueuePage, QueuesPage

        self._inspector = inspector
        self._operator = operator_of(inspector)
        self._screen = screen
        self._open_queue = QueuePage
        self._queues = QueuesPage()
        self._item_page: QueuePage | None = None
        self._question: _Question | None = None
        self._message = ""
        self._now = 0.0

    @property
    def _page(self) -> "TablePage":
        return self._item_page or self._queues

    @property
    def _queue(self) -> str:
        return self._item_page.queue if self._item_page else self._queues.chosen

    def run(self, interval: float) -> None:
        """Read, draw and react to keys until ``q``."""
        while True:
            self._look()
            until = time.monotonic() + interval
            while (left := until - time.monotonic()) > 0:
                self._draw()
                typed = self._screen.keys(min(left, LONGEST_INTERVAL))
                for key in typed:
                    if not self._press(key):
                        return
                if typed:
                    self._look()

    def _look(self) -> None:
        """Read the page anew; where Redis does not answer, keep the last one and show the error."""
        try:
            self._page.read(self._inspector)
            self._now = self._inspector.now()
            self._message = self._page.trouble() or self._message
        except DistqError as error:
            self._message = str(error)

    def _draw(self) -> None:
        from distq.cli.top.screen import Line

        height = self._screen.height
        lines = self._page.lines(self._now, height)
        lines += [Line("")] * (height - 2 - len(lines))
        message = f"{self._question.text} [y/N]" if self._question else self._message
        self._screen.draw([*lines, Line(escape(message), "title"), Line(self._page.keys, "quiet")])

    # Keys

    def _press(self, key: str) -> bool:
        """Do what a key is for; return False where it quits."""
        if self._question is not None:
            question, self._question = self._question, None
            self._answer(question, yes=key in {"y", "Y"})
            return True
        self._message = ""
        match key:
            case "q":
                return False
            case "up" | "k":
                self._page.choose(-1)
            case "down" | "j":
                self._page.choose(1)
            case "right" if self._item_page is None and self._queues.chosen:
                self._item_page = self._open_queue(self._queues.chosen)
            case "left":
                self._item_page = None
            case "tab" if self._item_page is not None:
                self._item_page.next_state()
            case "s":
                self._page.sort()
            case "o":
                self._page.backwards = not self._page.backwards
            case "p":
                self._ask_to_pause()
            case "r":
                self._ask_to_repair("requeue")
            case "d":
                self._ask_to_repair("delete")
        return True

    # Repairs: each is asked for first

    def _answer(self, question: _Question, *, yes: bool) -> None:
        if not yes:
            self._message = "nothing changed"
            return
        try:
            for self._message in question.act():
                self._draw()
        except DistqError as error:
            self._message = str(error)

    def _ask_to_pause(self) -> None:
        queue = self._queue
        info = self._item_page.info if self._item_page else self._queues.infos.get(queue)
        if info is None:
            return

        def act() -> Iterator[str]:
            changed = self._operator.resume(queue) if info.paused else self._operator.pause(queue)
            yield ("resumed" if info.paused else "paused") if changed else "it was so already"

        action = "resume" if info.paused else "pause"
        self._question = _Question(f"{action.capitalize()} {queue}?", act)

    def _ask_to_repair(self, repair: "Repair") -> None:
        if self._item_page is not None:
            self._ask_about_item(repair, self._queue, self._item_page.chosen)
        elif (info := self._queues.infos.get(self._queue)) and info.broken is None:
            self._ask_about_dead(repair, info.name, info.dead)

    def _ask_about_item(self, repair: "Repair", queue: str, key: str) -> None:
        if not key:
            return
        from distq.inspector.operator import Chosen

        def act() -> Iterator[str]:
            changed = self._operator.repair(repair, Chosen(queue=queue, keys=(key,)))
            yield f"{repair} {key}: " + ("done" if changed else "it has changed meanwhile, or is held")

        self._question = _Question(f"{repair.capitalize()} {key} of {queue}?", act)

    def _ask_about_dead(self, repair: "Repair", queue: str, count: int) -> None:
        if not count:
            self._message = f"{queue} has no dead items"
            return
        from distq.inspector.operator import Chosen

        def act() -> Iterator[str]:
            changed = 0
            for done in self._operator.repair_all(repair, Chosen(queue=queue, state="dead")):
                changed = done.changed
                if done.cursor is not None:
                    yield f"{repair} {bar(done.chosen, count)}"
            yield f"{repair}: {counted(changed, 'item')} of {queue}"

        self._question = _Question(f"{repair.capitalize()} {counted(count, 'dead item')} of {queue}?", act)
