"""Redis CPU time an item, for add, claim and settle: distq beside the floor, in turns.

Machines are busy and clocks of CPUs change, so the two alternate in short slices, what is
counted is the CPU time of the server's main thread, and medians are compared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import median

from benchmarks.servers import Server
from benchmarks.subjects import Subject, fill, new_keys


@dataclass
class Costs:
    """Redis CPU time an item in each slice, in µs."""

    add: list[float] = field(default_factory=list)
    turn: list[float] = field(default_factory=list)
    """Settle and claim, fused."""

    @property
    def cycle(self) -> float:
        """Return the median of add, claim and settle together."""
        return median(map(sum, zip(self.add, self.turn, strict=True)))


def measure(
    server: Server,
    subjects: Mapping[str, Subject],
    *,
    depth: Mapping[str, int],
    batch: int,
    slices: int,
    items: int,
    keys_of_each: Callable[[], Iterator[str]] = new_keys,
) -> dict[str, Costs]:
    """Let each subject take its slices in turn; a slice adds ``items`` keys to its queue and drains as many.

    ``depth`` items wait in each queue all the while. The first slice warms up and is not counted.
    """
    costs = {name: Costs() for name in subjects}
    keys = {name: keys_of_each() for name in subjects}
    for name, subject in subjects.items():
        fill(subject, keys[name], depth[name])
    for number in range(slices + 1):
        for name, subject in subjects.items():
            add, turn = _slice(server, subject, keys[name], batch, items)
            if number > 0:
                costs[name].add.append(add)
                costs[name].turn.append(turn)
    return costs


def _slice(
    server: Server, subject: Subject, keys: Iterator[str], batch: int, items: int
) -> tuple[float, float]:
    """Return the CPU time an item of adding, and of claiming and settling."""
    calls = max(1, items // batch)
    batches: Sequence[Sequence[str]] = [list(islice(keys, batch)) for _ in range(calls)]
    begin = server.cpu()
    for some in batches:
        subject.add(some)
    added = server.cpu()
    for _ in range(calls):
        claimed = subject.turn(batch)
        assert claimed == batch, f"claimed {claimed} of {batch}"
    end = server.cpu()
    return (added - begin) / (calls * batch), (end - added) / (calls * batch)
