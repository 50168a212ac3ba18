"""What happens, in which order: data that a seed gives, for ever.

No action depends on the actions of others, and one that finds nothing to act on does nothing. So a schedule
from which actions are taken away is a schedule, and a failure shrinks to the actions that it needs.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

Action = tuple[Any, ...]

INFORMERS = ("informer-0", "informer-1", "informer-2")
WORKERS = ("worker-0", "worker-1", "worker-2")
OBJECTS = 5
OWNERS = 3
FAULTS = (
    "lost",
    "lost",
    "lost",
    "refused",
    "twice",
    "ghost",
    "killed before",
    "killed after",
    "killed after",
)
"""How a call of Redis fails: see ``faulty_line``; lost replies are what is hardest."""


@dataclass(frozen=True)
class Schedule:
    """The actions; whether keys are those of the objects' owners; s between resyncs; whether it is fair.

    ``limit`` is how many items of a flow are claimed at a time then, 0 for any number.
    """

    actions: Sequence[Action]
    mapped: bool = False
    resync: float = 0.0
    fair: bool = False
    limit: int = 0

    def without(self, start: int, end: int) -> "Schedule":
        """Return it without some of its actions."""
        return replace(self, actions=[*self.actions[:start], *self.actions[end:]])

    def dump(self) -> str:
        """Return it as a line of JSON."""
        about = {"mapped": self.mapped, "resync": self.resync, "fair": self.fair, "limit": self.limit}
        return json.dumps(about | {"actions": self.actions})

    @classmethod
    def load(cls, line: str) -> "Schedule":
        """Read what ``dump`` wrote."""
        fields = json.loads(line)
        actions = [tuple(action) for action in fields["actions"]]
        return cls(
            actions, fields["mapped"], fields["resync"], fields.get("fair", False), fields.get("limit", 0)
        )


def schedule_of(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    rng = random.Random(f"schedule {seed}")
    mapped = rng.random() < 0.25
    resync = 20.0 if rng.random() < 0.15 else 0.0
    loses = rng.random() < 0.6  # of the rest nothing may be excused
    actions: list[Action] = [("write", name, rng.randrange(OWNERS)) for name in range(rng.randrange(OBJECTS))]
    if rng.random() < 0.7:  # where a leader has listed and workers have worked, there is more to lose
        actions += _quiet(rng)
    for _ in range(rng.randrange(3, 8)):
        actions += _phase(rng, loses=loses)
    fair = rng.random() < 0.5
    return Schedule(actions, mapped, resync, fair, limit=rng.choice((0, 0, 1, 2)) if fair else 0)


def _quiet(rng: random.Random) -> list[Action]:
    """Return how a leader starts, and a worker with it."""
    informer, worker = rng.choice(INFORMERS), rng.choice(WORKERS)
    steps: list[Action] = [("informer", informer, True)] * 16
    return [*steps, *[("worker", worker, round(rng.random(), 3)) for _ in range(rng.randrange(12))]]


def _phase(rng: random.Random, *, loses: bool) -> list[Action]:
    """Return what happens while some processes run and the others are frozen, and a disaster or two."""
    informers = rng.sample(INFORMERS, rng.choice((1, 1, 1, 2, 2, 3)))
    workers = rng.sample(WORKERS, rng.choice((0, 1, 1, 2, 3)))
    renewing = [name for name in informers if rng.random() < 0.6]
    before: Action = ("pass", rng.choice((0.0, 0.1, 1.0, 4.0, 11.0, 16.0)))
    actions = [_step(rng, informers, workers, renewing) for _ in range(rng.randrange(10, 32))]
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        actions.insert(rng.randrange(len(actions)), _disaster(rng, (*informers, *workers), loses=loses))
    return [before, *actions]


def _step(
    rng: random.Random, informers: Sequence[str], workers: Sequence[str], renewing: Sequence[str]
) -> Action:
    chance = rng.random()
    if chance < 0.48 or (not workers and chance < 0.8):
        informer = rng.choice(informers)
        return "informer", informer, informer in renewing
    if chance < 0.8:
        return "worker", rng.choice(workers), round(rng.random(), 3)
    if chance < 0.86:
        return "write", rng.randrange(OBJECTS), rng.randrange(OWNERS)
    if chance < 0.89:
        return "delete", rng.randrange(OBJECTS)
    if chance < 0.92:
        return "pass", rng.choice((0.05, 0.3, 1.0, 2.0))
    if chance < 0.95:
        return "fault", rng.choice((*informers, *workers)), rng.choice(FAULTS)
    return ("save",)


def _disaster(rng: random.Random, running: Sequence[str], *, loses: bool) -> Action:
    kinds: list[Action] = [
        ("compact",),
        ("compact",),
        ("break",),
        ("bookmark",),
        ("delete lease",),
        ("delete lease",),
        ("delete lease",),
        ("unreachable", rng.randrange(1, 3)),
        ("kill", rng.choice(running)),
        ("kill", rng.choice(running)),
        ("leave", rng.choice(WORKERS)),
        ("ghost", rng.choice(running)),
        ("clock", rng.choice((-3600.0, -1.0, 1.0, 3600.0))),
        ("list all",),
    ]
    if loses:
        kinds += [("roll back", rng.randrange(3))] * 12 + [("wipe",)]
    return rng.choice(kinds)
