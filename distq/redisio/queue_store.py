"""One queue in Redis: its keys, its scripts by name, and plain reads."""

import copy
import math
import re
import time
from collections.abc import Sequence
from typing import Any

from distq.errors import ConfigError, LayoutTooNew, RedisRefused
from distq.redisio import scripts
from distq.redisio.connection import Argument, Connection
from distq.redisio.conversation import Meanwhile
from distq.redisio.fairness import Fairness
from distq.redisio.keys import (
    LAYOUT,
    is_queue_name,
    queue_key,
    queues_key,
    text_of,
    validate_key,
    validate_queue_name,
)
from distq.redisio.limits import BATCH_LIMIT, REPAIR_LIMIT
from distq.redisio.registration import QueueRegistration, is_registered

_VERSION = re.compile(rb"\d{1,4}")
"""A layout. distq writes no other text: the next session replaces such a text by its own layout."""


class QueueStore:
    """A queue for its scripts; its only state is its name, and that the queue is registered.

    With ``fair_by`` its first call makes the queue fair, or raises ConfigError if a user or another program
    set another value before; see ``Fairness``.
    """

    def __init__(
        self, connection: Connection, name: str, *, fair_by: str = "", is_refused: bool = True
    ) -> None:
        self.connection = connection
        self.name = validate_queue_name(name)
        self._fairness = Fairness(name, fair_by, is_refused=is_refused)
        self._keys: dict[str, str] = {}
        self._keys_of: dict[str, list[Argument]] = {}
        """The keys of each script, in the form in which they are sent."""
        self._registration = QueueRegistration(self.name)

    def with_timeout(self, timeout: float, *, repeats: bool = False) -> "QueueStore":
        """Return the same queue over a connection with this timeout; it shares the state of this one."""
        other = copy.copy(self)
        other.connection = self.connection.with_timeout(timeout, repeats=repeats)
        return other

    def key(self, name: str) -> str:
        """Return the Redis key of a structure named as in ``keys``."""
        key = self._keys.get(name)
        if key is None:  # made once per store: a turn needs thirteen keys
            key = self._keys[name] = queue_key(self.name, name, prefix=self.connection.prefix)
        return key

    def run(
        self,
        script: str,
        meanwhile: Meanwhile = None,
        /,
        **inputs: Argument | Sequence[Argument],
    ) -> Any:
        """Run a script with its inputs by name; replies are bytes, int or lists of them."""
        loaded, arguments = self._bound(script, inputs)
        try:
            return self.connection.evaluate(loaded.source, loaded.sha, arguments, meanwhile)
        except RedisRefused as error:
            self._require_layout_of(error)
            raise

    def call_of(self, script: str, **inputs: Argument | Sequence[Argument]) -> Sequence[Argument]:
        """Return the command that runs a script, which ran before, for a connection of one's own."""
        loaded, arguments = self._bound(script, inputs)
        return self.connection.call_of(loaded.source, loaded.sha, arguments)

    def run_and_wait(
        self, script: str, replicas: int, timeout: float, **inputs: Argument | Sequence[Argument]
    ) -> tuple[Any, int]:
        """Run a script, and wait at most ``timeout`` seconds until ``replicas`` replicas have its writes.

        Returns its reply, and how many have them. Source: Redis WAIT.
        """
        loaded, arguments = self._bound(script, inputs)
        wait = ("WAIT", replicas, math.ceil(timeout * 1000))
        try:
            reply, seen_by = self.connection.evaluate_and(loaded.source, loaded.sha, arguments, wait)
        except RedisRefused as error:
            self._require_layout_of(error)
            raise
        return reply, seen_by

    def _bound(self, script: str, inputs: dict[str, Any]) -> tuple[scripts.Script, list[Argument]]:
        # a wipe that removed the name of the queue ended its sessions, too: so each new session checks
        if time.monotonic() >= self._registration.good_until or script == "open":
            self._register()
        loaded = scripts.load(script)
        if "time" in loaded.arguments:
            inputs["time"] = str(self.connection.server_time)
        if script not in self._keys_of:
            self._keys_of[script] = loaded.keys_by(self.key)
        return loaded, [*self._keys_of[script], *loaded.values_of(inputs)]

    def _require_layout_of(self, error: RedisRefused) -> None:
        """Raise LayoutTooNew if that is why a script refused."""
        if "LAYOUT " in str(error.__context__):
            raise self._too_new(str(error.__context__).rpartition("LAYOUT ")[2]) from None

    def read(self, *commands: Sequence[Argument]) -> list[Any]:
        """Run plain reads in one round trip; the second word of each is the name of a structure."""
        return self.connection.pipeline(self.commands(*commands))

    def commands(self, *commands: Sequence[Argument]) -> list[Sequence[Argument]]:
        """Return the commands with the key of the structure that their second word names."""
        return [(command, self.key(str(name)), *rest) for command, name, *rest in commands]

    def exists(self) -> bool:
        """Return whether the queue was ever used."""
        return is_registered(self.connection, self.name)

    def remove(self) -> None:
        """Remove the queue and its name from Redis, but not known sets and caches; no process may use it."""
        structures = {name for script in scripts.names() for name in scripts.load(script).keys}
        self.connection.execute("UNLINK", *(self.key(name) for name in sorted(structures)))
        self.connection.execute("HDEL", queues_key(self.connection.prefix), self.name)

    def share(self, fair_by: str) -> str:
        """Make the queue fair by namespace or none; return the value before, "" if there was none.

        All waiting items have then entered by their flows. If this call ends early, turns continue with it.
        """
        before, is_left = self.run("share", wanted=fair_by)
        while is_left:
            _, is_left = self.run("share", wanted=fair_by)
        return text_of(before)

    def pause(self) -> bool:
        """Stop claims; return False if they were stopped already."""
        return bool(self.run("pause"))

    def resume(self) -> bool:
        """Permit claims again; return False if they were not stopped."""
        return bool(self.run("resume"))

    def park(self, keys: Sequence[str | bytes], why: str) -> int:
        """Make items dead for good that would come back, and that no session holds; return how many."""
        return sum(self.run("park", why=why, items=batch) for batch in batches(keys, REPAIR_LIMIT))

    def requeue(self, keys: Sequence[str | bytes], *, state: str | None = None) -> int:
        """Delete delay, failure record and death of items, all or those in a state; return how many changed.

        Delayed and dead items become pending now, in their order, the delayed ones before the dead ones.
        Raises ConfigError for a text that is no state of an item.
        """
        _require_state(state, "ready", "dirty", "processing", "delayed", "dead")
        return sum(
            self.run("requeue", state=state or "", items=batch) for batch in batches(keys, REPAIR_LIMIT)
        )

    def delete(self, keys: Sequence[str | bytes], *, state: str | None = None) -> int:
        """Delete pending and dead items, all or those in a state; return how many changed.

        Raises ConfigError for a text that is no state of a pending or dead item.
        """
        _require_state(state, "ready", "dirty", "delayed", "dead")
        return sum(
            self.run("delete", state=state or "", items=batch) for batch in batches(keys, REPAIR_LIMIT)
        )

    def require_known_layout(self) -> None:
        """Raise LayoutTooNew if a newer distq wrote the queue."""
        (layout,) = self.read(("HGET", "meta", "layout"))
        if layout is not None and _VERSION.fullmatch(layout) and int(layout) > LAYOUT:
            raise self._too_new(layout.decode())

    def _register(self) -> None:
        """Register the name of the queue, unless a newer distq wrote the queue."""
        self.require_known_layout()
        if self._fairness.fair_by:
            self._share()  # before the registration, which lets the next calls pass
        self._registration.renew(self.connection)

    def _share(self) -> None:
        """Make the queue fair by its handle's ``fair_by``; if memory is full, the next check does it.

        A value that a user or another program set stays. Raises ConfigError if it differs.
        """
        script = scripts.load("fair_by")
        inputs = script.bind(self.key, {"fair_by": self._fairness.fair_by})
        try:
            fair_by = self.connection.evaluate(script.source, script.sha, inputs)
        except RedisRefused as error:
            if "is full" not in str(error):
                raise
            self._fairness.begin()  # the script writes only if the queue has no value
        else:
            self._fairness.compare(fair_by)

    def _too_new(self, layout: str) -> LayoutTooNew:
        return LayoutTooNew(
            f'queue "{self.name}" has layout {layout}: a newer distq wrote it, this one knows {LAYOUT}. '
            "Upgrade distq here."
        )


def _require_state(state: str | None, *states: str) -> None:
    if state is not None and state not in states:
        raise ConfigError(f"bad state {state!r:.80}: no item can be chosen by it. Use {', '.join(states)}.")


def batches(keys: Sequence[str | bytes], size: int = BATCH_LIMIT) -> list[list[bytes]]:
    """Validate all keys; return each once, as bytes, in batches that a script takes.

    Bytes were read from Redis, and are not checked.
    """
    valid = [key if isinstance(key, bytes) else validate_key(key) for key in keys]
    if len(valid) == 1:  # as in most calls
        return [valid]
    distinct = list(dict.fromkeys(valid))
    return [distinct[start : start + size] for start in range(0, len(distinct), size)]


def queue_names(connection: Connection) -> list[str]:
    """Return the names of the existing queues, sorted, without texts that are no queue name."""
    names = (text_of(name) for name in connection.execute("HKEYS", queues_key(connection.prefix)))
    return sorted(name for name in names if is_queue_name(name))
