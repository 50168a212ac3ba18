"""The leader's commits: keys and its position in the watch, together or not at all."""

from collections.abc import Mapping, Sequence

from distq.redisio.commit import Commit
from distq.redisio.keys import text_of
from distq.workqueue.memory.entries import Dead, FailureHistory, Item, Stream
from distq.workqueue.memory.items import Items


class Streams:
    """The streams that feed one queue, and the known objects of one of them."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self.all: dict[str, Stream] = {}
        self.known: dict[str, str] = {}

    def commit(self, now: int, stream: str, commit: Commit) -> list[str | int]:
        """Add a batch and move a stream from one position to the next, or do nothing.

        Returns OK and how many items were not pending, FENCED and the stored epoch, or MISMATCH and
        the position. An older epoch is fenced; the batch before this one must be the last.
        Unrouted objects become dead. The other known and gone objects are no longer dead for that reason.
        """
        stored = self.all.get(stream)
        if stored is not None:
            if int(commit.epoch) < int(stored.epoch) and commit.replaces != stored.epoch:
                return ["FENCED", stored.epoch]
            if commit.repeats(stored.batch):  # its reply was lost, and the leader sent it again
                return ["OK", 0]
        if commit.after != (stored.batch if stored else ""):
            return ["MISMATCH", stored.position if stored else ""]
        reason = "unmapped" if commit.parked_as else "routing"
        self._unpark([commit.parked_as + name for name in (*commit.gone, *commit.known)], reason)
        unrouted = {text_of(item): why for item, why in commit.unrouted.items()}
        items = [*dict.fromkeys([*map(text_of, commit.items()), *self._park(now, unrouted, reason)])]
        added = 0
        if items and commit.delay:
            added = self._items.enqueue_later(
                now, items, commit.priority, commit.delay, keep_pending=commit.keep_pending
            )
        elif items:
            added = self._items.enqueue(
                now, items, commit.priority, keep_pending=commit.keep_pending, link=commit.link
            )
        self.known |= commit.known
        for name in commit.gone:
            self.known.pop(name, None)
        self.all.pop(stream, None)
        if commit.new:
            self.all[stream] = Stream(commit.epoch, commit.new, commit.batch, commit.about_text())
        return ["OK", added]

    def _unpark(self, names: Sequence[Item], reason: str) -> None:
        """Drop dead objects on which the watch's functions had failed."""
        items = self._items
        for item in names:
            if item in items.dead and items.failures[item].reason == reason:
                del items.dead[item], items.failures[item]

    def _park(self, now: int, unrouted: Mapping[Item, str], reason: str) -> list[Item]:
        """Make objects dead; return those that are pending or held: they get an attempt instead."""
        items, tried = self._items, []
        for item, text in unrouted.items():
            if item in items.pending or item in items.claims:
                tried.append(item)
            elif item not in items.dead:
                items.dead[item] = Dead(now)
                items.failures[item] = FailureHistory(failed_at=now, reason=reason, text=text)
        return tried
