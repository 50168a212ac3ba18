"""The pages of ``distq top``: all queues, and the items of one."""

from collections.abc import Callable, Sequence
from typing import Any

from distq.cli.items import ITEM_COLUMNS, item_row
from distq.cli.output import aligned, escape
from distq.cli.queues import QUEUE_COLUMNS, queue_row
from distq.cli.top.screen import Line
from distq.inspector import Inspector, ItemInfo, Listing, QueueInfo

STATES: tuple[Listing, ...] = ("processing", "dead", "delayed", "ready", "dirty")
_ITEMS_SHOWN = 200

_QUEUE_ORDERS: dict[str, Callable[[QueueInfo], Any]] = {
    "QUEUE": lambda info: info.name,
    "READY": lambda info: -info.ready,
    "DELAYED": lambda info: -info.delayed,
    "PROCESSING": lambda info: -info.processing,
    "DIRTY": lambda info: -info.dirty,
    "DEAD": lambda info: -info.dead,
    "FAILING": lambda info: -info.failing,
    "OLDEST": lambda info: info.oldest_ready or float("inf"),
    "DONE/S": lambda info: -info.done_per_second,
    "WORKERS": lambda info: -info.workers,
}
_ITEM_ORDERS: dict[str, Callable[[ItemInfo], Any]] = {
    "": lambda _: 0,  # as they leave their state
    "KEY": lambda item: item.key,
    "FAILURES": lambda item: -item.failures,
    "SINCE": lambda item: item.since or float("inf"),
}


class TablePage:
    """Rows of which one is chosen, in an order that can be changed; it follows its row when others move."""

    title = ""
    keys = ""
    columns: Sequence[str] = ()
    orders: Sequence[str] = ()

    def __init__(self) -> None:
        self.order = self.orders[0]
        self.backwards = False
        self.chosen = ""
        self._names: list[str] = []

    def read(self, inspector: Inspector) -> None:
        """Look again."""
        raise NotImplementedError

    def rows(self, now: float) -> list[tuple[str, list[str]]]:
        """Return the rows in their order, each with its name."""
        raise NotImplementedError

    def trouble(self) -> str:
        """Return why the row that is chosen shows nothing, "" where it does."""
        return ""

    def choose(self, step: int) -> None:
        """Choose the row so many further down."""
        if self._names:
            place = self._names.index(self.chosen) + step
            self.chosen = self._names[max(0, min(place, len(self._names) - 1))]

    def sort(self) -> None:
        """Order by the next column."""
        self.order = self.orders[(self.orders.index(self.order) + 1) % len(self.orders)]

    def lines(self, now: float, height: int) -> list[Line]:
        """Return as much as fits, with the row that is chosen."""
        rows = self.rows(now)
        self._names = [name for name, _ in rows]
        if self.chosen not in self._names:
            self.chosen = self._names[0] if self._names else ""
        order = "backwards " * self.backwards + (f"by {self.order}" if self.order else "in their order")
        head, *texts = aligned([*self.columns, ""], [[escape(cell) for cell in cells] for _, cells in rows])
        place = self._names.index(self.chosen) if self._names else 0
        room = max(1, height - 4)
        first = max(0, min(place - room // 2, len(texts) - room))
        shown = [
            Line(text, "chosen" if at == place else "plain")
            for at, text in list(enumerate(texts))[first : first + room]
        ]
        return [Line(f"{self.title}, {order}", "title"), Line(head, "title"), *shown]


class QueuesPage(TablePage):
    """All queues in numbers."""

    title = "distq: queues"
    keys = "enter open  s sort  o other way  p pause or resume  r requeue the dead  d delete the dead  q quit"
    columns = QUEUE_COLUMNS
    orders = tuple(_QUEUE_ORDERS)

    def __init__(self) -> None:
        super().__init__()
        self.infos: dict[str, QueueInfo] = {}

    def read(self, inspector: Inspector) -> None:
        """Look at all queues."""
        self.infos = {info.name: info for info in inspector.queues()}

    def trouble(self) -> str:
        """Return why the queue that is chosen cannot be read."""
        info = self.infos.get(self.chosen)
        return (info.broken or "") if info else ""

    def rows(self, now: float) -> list[tuple[str, list[str]]]:
        """Return a row a queue."""
        found = sorted(self.infos.values(), key=_QUEUE_ORDERS[self.order], reverse=self.backwards)
        return [(info.name, queue_row(info, now)) for info in found]


class QueuePage(TablePage):
    """The first items of one state of a queue."""

    keys = "left back  tab state  s sort  o other way  p pause or resume  r requeue it  d delete it  q quit"
    columns = ITEM_COLUMNS
    orders = tuple(_ITEM_ORDERS)

    def __init__(self, queue: str) -> None:
        super().__init__()
        self.queue = queue
        self.state: Listing = STATES[0]
        self.info: QueueInfo | None = None
        self._items: list[ItemInfo] = []

    @property
    def title(self) -> str:  # type: ignore[override]  # others have the same at all times
        """Return which items these are, and how many there are."""
        count = getattr(self.info, self.state, 0)
        first = f", the first {_ITEMS_SHOWN}" if count > _ITEMS_SHOWN else ""
        paused = ", paused" if self.info and self.info.paused else ""
        return f"distq: {self.queue}{paused}: {count} {self.state}{first}"

    def read(self, inspector: Inspector) -> None:
        """Look at the first items of the state."""
        self.info = next(iter(inspector.queues(self.queue)), None)
        self._items = inspector.items(self.queue, state=self.state, limit=_ITEMS_SHOWN)

    def rows(self, now: float) -> list[tuple[str, list[str]]]:
        """Return a row an item."""
        found = sorted(self._items, key=_ITEM_ORDERS[self.order])
        return [(item.key, [*item_row(item, now), ""]) for item in (found[::-1] if self.backwards else found)]

    def next_state(self) -> None:
        """Show the items of another state."""
        self.state = STATES[(STATES.index(self.state) + 1) % len(STATES)]
