"""The demo's verdict, from the API server, the journals and Redis."""

from collections.abc import Iterable
from dataclasses import dataclass

from distq.cli.demo.controller import RESOURCE
from distq.cli.demo.journal import Entry
from distq.client.client import Client
from distq.wording import counted


@dataclass(frozen=True)
class Verdict:
    """The demo's summary; the names are those of its JSON."""

    objects: int
    reconciled: int
    lost: int
    overlaps: int
    left_over: int
    leader_changes: int
    lists_by_new_leader: int

    @property
    def good(self) -> bool:
        """Return whether every promise that the demo puts to the test was kept."""
        return self.leader_changes >= 1 and not (
            self.lost or self.overlaps or self.left_over or self.lists_by_new_leader
        )

    def __str__(self) -> str:
        objects, overlaps = counted(self.objects, "object"), counted(self.overlaps, "overlap")
        changes, lists = (
            counted(self.leader_changes, "leader change"),
            counted(self.lists_by_new_leader, "list"),
        )
        return (
            f"{objects}, {self.reconciled} reconciled to their last version, {self.lost} lost, "
            f"{overlaps}, {self.left_over} left over, {changes}, {lists} by the new leader"
        )


def lost_keys(
    client: Client, namespace: str, keys: set[str], alive: set[str], entries: Iterable[Entry]
) -> set[str]:
    """Return the keys whose last state was not reconciled.

    Of what exists the API server shows which generation was reconciled; that a deletion was, its last
    entry in the journals: it found nothing.
    """
    up_to_date = {
        f"{namespace}/{foo['metadata']['name']}"
        for foo in client.list(RESOURCE, namespace)
        if foo.get("status", {}).get("observedGeneration") == foo["metadata"]["generation"]
    }
    last: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda entry: entry.start):
        if entry.end is not None and not entry.failed:
            last[entry.key] = entry
    found_gone = {key for key, entry in last.items() if entry.gone}
    return keys - (up_to_date & alive) - (found_gone - alive)
