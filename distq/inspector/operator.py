"""Changes that people make, the same by commands, in ``distq top`` and on a dashboard.

Each is in the audit before it is made, and its outcome afterwards. Apart from that, a method does the same as
that of Inspector with its name.
"""

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, cast

from distq.errors import DistqError, LayoutTooNew, RedisError
from distq.inspector.choices import BY_HAND
from distq.inspector.info import AuditSource, Listing, Repair, RepairStep
from distq.inspector.inspector import Inspector
from distq.redisio.audit_log import AuditLog
from distq.redisio.limits import TRACE_ENTRIES
from distq.redisio.queue_store import QueueStore
from distq.wording import counted
from distq.workqueue.queue import Queue

logger = logging.getLogger("distq.inspector")

_DID = {True: "done", False: "it was so already"}
_NAMED = 10
"""Keys that the outcome of a repair names."""


class Actor(NamedTuple):
    """A person, None without a login, at an address or machine, with a dashboard or a command."""

    person: str | None
    address: str | None
    via: AuditSource


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Items for a repair: those of ``keys``, in ``state`` if it is given; or all in ``state`` that match."""

    queue: str
    keys: tuple[str, ...] = ()
    state: Listing | None = None
    match: str = "*"
    reason: str = BY_HAND

    def __str__(self) -> str:
        """Return them in words: prod/web of foos, 3 items of foos, dead items of foos."""
        which = _which(self.keys) if self.keys else f"{self.state} items"
        matching = "" if self.match == "*" else f" that match {self.match}"
        return f"{which} of {self.queue}{matching}"


class Operator:
    """Changes queues for the person that ``actor`` returns at each change.

    No change fails or waits long for the audit. ``log`` is called with the text, the action, the queue and
    facts of one that succeeded.
    """

    def __init__(
        self, inspector: Inspector, actor: Callable[[], Actor], log: Callable[..., None] | None = None
    ) -> None:
        self.inspector = inspector
        self._actor = actor
        self._log = log

    @contextmanager
    def _noted(self, action: str, queue: str, text: str) -> Iterator[Callable[..., None]]:
        """Note an action in words; within, call what this gives with the outcome, and facts for the log.

        An action without one that raises a DistqError is noted as failed; the caller logs that. Raises
        InvalidQueueName.
        """
        log = AuditLog(QueueStore(self.inspector.connection, queue))
        fields = {**self._actor()._asdict(), "action": action, "text": text}
        entry_id = _begin(log, fields)
        has_outcome = False

        def did(outcome: str, **facts: object) -> None:
            nonlocal has_outcome
            has_outcome = True
            _end(log, entry_id, {**fields, "outcome": outcome})
            if self._log:
                self._log(f"{text}: {outcome}", action=action, queue=queue, **facts)

        try:
            yield did
        except DistqError as error:
            if not has_outcome:
                _end(log, entry_id, {**fields, "outcome": f"failed: {error}"})
            raise

    def add(self, queue: str, *keys: str, priority: int, after: float | None) -> int:
        """Make keys pending, also in a queue that is new."""
        with self._noted("add", queue, f"add {_which(keys)} to {queue}") as did:
            added = Queue(queue, self.inspector.connection).add(*keys, priority=priority, after=after)
            did(f"{added} new", changed=added)
        return added

    def pause(self, queue: str) -> bool:
        """Stop claims."""
        return self._switch("pause", queue, self.inspector.pause)

    def resume(self, queue: str) -> bool:
        """Let claims go on."""
        return self._switch("resume", queue, self.inspector.resume)

    def _switch(self, action: str, queue: str, switch: Callable[[str], bool]) -> bool:
        with self._noted(action, queue, f"{action} {queue}") as did:
            changed = switch(queue)
            did(_DID[changed], changed=int(changed))
        return changed

    def fair_by(self, queue: str, fair_by: str | None) -> str | None:
        """Make a queue fair, or not."""
        with self._noted("fair", queue, f"share {queue} fairly by {fair_by or 'none'}") as did:
            before = self.inspector.fair_by(queue, fair_by)
            did(_DID[before != fair_by])
        return before

    def resync(self, queue: str) -> int:
        """Make the leader list all resources anew."""
        with self._noted("resync", queue, f"resync {queue}") as did:
            listed = self.inspector.resync(queue)
            did(counted(listed, "resource"), changed=listed)
        return listed

    def trace_on(self, queue: str, *, seconds: float, limit: int = TRACE_ENTRIES, match: str = "") -> None:
        """Record the call of every script."""
        which = f" where keys match {match}" if match else ""
        text = f"trace {queue} for {seconds / 60:g} minutes{which}"
        with self._noted("trace-on", queue, text) as did:
            self.inspector.trace_on(queue, seconds=seconds, limit=limit, match=match)
            did("done")

    def trace_off(self, queue: str) -> None:
        """Stop the trace."""
        with self._noted("trace-off", queue, f"end the trace of {queue}") as did:
            self.inspector.trace_off(queue)
            did("done")

    def repair(self, repair: Repair, chosen: Chosen) -> int:
        """Repair the items of the keys; return how many changed."""
        keys, state = chosen.keys, chosen.state
        with self._noted(repair, chosen.queue, f"{repair} {chosen}") as did:
            if repair == "park":
                changed = self.inspector.park(chosen.queue, *keys, state=state, reason=chosen.reason)
            else:
                change = self.inspector.requeue if repair == "requeue" else self.inspector.delete
                changed = change(chosen.queue, *keys, state=state)
            # the text names a single one
            names = f": {', '.join(keys[:_NAMED])}" if len(keys) > 1 else ""
            did(f"{changed} of {len(keys)} changed{names}", chosen=len(keys), changed=changed)
        return changed

    def repair_all(
        self,
        repair: Repair,
        chosen: Chosen,
        done: RepairStep = RepairStep(0, 0, 0),  # noqa: B008 - immutable
        pauses: Callable[[], bool] = lambda: False,
    ) -> Generator[RepairStep, None, None]:
        """Repair all items in the state that match, in steps; yield after each what all so far have done.

        It begins after what is ``done``, and ends early where ``pauses``, which is asked after each step,
        returns True, to go on from there. Close it where it is left before its end.
        """
        with self._noted(repair, chosen.queue, f"{repair} {chosen}") as did:

            def note(how: str = "") -> None:
                text = f"{done.changed} of {done.chosen} changed{how}"
                did(text, chosen=done.chosen, changed=done.changed)

            try:
                while True:
                    step = self.inspector.repair_some(
                        repair,
                        chosen.queue,
                        state=cast("Listing", chosen.state),
                        match=chosen.match,
                        cursor=done.cursor or 0,
                        reason=chosen.reason,
                    )
                    done = RepairStep(done.chosen + step.chosen, done.changed + step.changed, step.cursor)
                    yield done
                    if done.cursor is None or pauses():
                        break
            except (KeyboardInterrupt, GeneratorExit):  # no DistqError, which _noted would note
                note(", then stopped")
                raise
            except DistqError as error:
                if done.chosen:  # else the error alone is the outcome
                    note(f", then failed: {error}")
                raise
            note("" if done.cursor is None else ", going on")


def _which(keys: tuple[str, ...]) -> str:
    return keys[0] if len(keys) == 1 else counted(len(keys), "item")


def _begin(log: AuditLog, fields: dict[str, str | None]) -> str | None:
    try:
        return log.begin(fields)
    except LayoutTooNew:  # the action would be refused, too
        raise
    except RedisError as error:
        logger.warning("Redis did not take an action into the audit: %s", error)
        return None


def _end(log: AuditLog, entry_id: str | None, fields: dict[str, str | None]) -> None:
    if entry_id is None:
        return
    try:
        log.end(entry_id, fields)
    except RedisError as error:
        logger.warning("Redis did not take the outcome of an action into the audit: %s", error)
