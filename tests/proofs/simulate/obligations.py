"""What must have been reconciled in the end, derived from what happened in the cluster."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.proofs.simulate.model_cluster import Change, ModelCluster
from tests.proofs.simulate.queue_history import QueueHistory
from tests.proofs.simulate.simulated_worker import Reconcile
from tests.proofs.simulate.violation import Violation


@dataclass
class Membership:
    """An object that meant a key, from its first to its last change; ``end`` is what ended that."""

    name: str
    key: str
    start: Change
    last: Change
    end: Change | None = None


class Obligations:
    """The changes of the cluster on the one side, the reconciles on the other."""

    def __init__(self, cluster: ModelCluster, history: QueueHistory, *, mapped: bool) -> None:
        self._cluster = cluster
        self._history = history
        self._mapped = mapped
        self._begun: dict[str, list[int]] = defaultdict(list)
        self._reconciled: dict[str, int] = {}

    def note_begin(self, reconcile: Reconcile) -> None:
        """Note that a reconcile looks at what a key means now."""
        self._begun[reconcile.request.key].append(reconcile.began)

    def note_end(self, reconcile: Reconcile) -> None:
        """Note that a reconcile succeeded."""
        key = reconcile.request.key
        self._reconciled[key] = max(reconcile.began, self._reconciled.get(key, 0))

    def count(self) -> int:
        """Return how many reconciles were begun."""
        return sum(map(len, self._begun.values()))

    def keys_of(self, change: Change) -> set[str]:
        """Return the keys that a change means."""
        owners = {owner for owner in (change.before, change.after) if owner is not None}
        return {f"ns/{owner}" for owner in owners} if self._mapped else {f"ns/{change.name}"}

    def check(self) -> None:
        """Raise Violation unless each key was reconciled after the last change that it was to learn of.

        A deletion is excused where no worker saw the object, and where none could know of it any more: a list
        showed the remaining objects, and Redis had never learned of the object, or had forgotten it.
        """
        for member in self._memberships():
            last = member.end or member.last
            if self._reconciled.get(member.key, 0) > last.moment:
                continue
            if member.end is None or (self._was_seen(member) and not self._is_excused(member)):
                raise Violation("nothing is lost", f"{member.key} was not reconciled after {last}", lost=True)

    def _memberships(self) -> Iterator[Membership]:
        members: dict[str, Membership] = {}
        for change in self._cluster.changes:
            key = None if change.after is None else f"ns/{change.after if self._mapped else change.name}"
            member = members.get(change.name)
            if member is not None and member.key != key:
                member.end = change
                yield members.pop(change.name)
            if key is None:
                continue
            if change.name in members:
                members[change.name].last = change
            else:
                members[change.name] = Membership(change.name, key, change, change)
        yield from members.values()

    def _was_seen(self, member: Membership) -> bool:
        assert member.end is not None
        return any(member.start.moment < began < member.end.moment for began in self._begun[member.key])

    def _is_excused(self, member: Membership) -> bool:
        assert member.end is not None
        end, name = member.end.version, f"ns/{member.name}"
        if not any(version >= end for version in self._cluster.listed):
            return False
        handed_over = [
            moment
            for (known, line), moment in self._history.handed_over.items()
            if known == name and member.start.version <= int(line.partition("\n")[0]) < end
        ]
        return not handed_over or max(handed_over) < self._history.forgotten.get(name, 0)
