"""How the leader hands over batches: keys and its position in the watch, together or not at all."""

from collections.abc import Mapping, Sequence

from distq.workqueue.memory.entries import Item, Stream
from distq.workqueue.memory.items import Items


class Streams:
    """The streams that feed one queue, and what is known of the objects of one of them."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self.all: dict[str, Stream] = {}
        self.known: dict[str, str] = {}

    def commit(
        self,
        *,
        now: int,
        stream: str,
        epoch: str,
        replaces: str,
        after: str,
        new: str,
        batch: str,
        about: str,
        priority: int,
        keep_pending: bool,
        items: Sequence[Item],
        known: Mapping[str, str],
        gone: Sequence[str],
    ) -> list[str | int]:
        """Add a batch and move a stream from one position to the next, or do nothing.

        Returns OK and how many items were not pending, FENCED and the epoch stored, or MISMATCH and
        the position. An epoch of the past is fenced; the batch before this one must be the last.
        """
        stored = self.all.get(stream)
        if stored is not None:
            if int(epoch) < int(stored.epoch) and replaces != stored.epoch:
                return ["FENCED", stored.epoch]
            if batch == stored.batch:
                return ["OK", 0]
        if after != (stored.batch if stored else ""):
            return ["MISMATCH", stored.position if stored else ""]
        added = self._items.enqueue(now, items, priority, keep_pending=keep_pending) if items else 0
        self.known |= known
        for name in gone:
            self.known.pop(name, None)
        self.all.pop(stream, None)
        if new:
            self.all[stream] = Stream(epoch, new, batch, about)
        return ["OK", added]
