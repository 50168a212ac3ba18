"""What a limit of the claims of each flow costs Redis, and how long others wait for a flow at its limit."""

from collections.abc import Callable, Iterator
from itertools import count
from statistics import median

from benchmarks import cycle
from benchmarks.report import Row
from benchmarks.servers import Server
from benchmarks.subjects import Distq, fill

LIMIT = 5
OTHERS = 20
"""Namespaces beside the slow one."""

COSTS = {1: 1.8, 100: 2.4}
"""For each size of a batch, the most that a turn may cost, in those of a fair queue without a limit."""

LONGEST_TURN = 10_000.0
"""Microseconds of Redis for a turn that holds back items, at most."""


def rows(
    server: Server, *, waiting: int, rounds: int, keys_of_each: Callable[[], Iterator[str]]
) -> Iterator[Row]:
    """Measure with so many items of the slow namespace, and so many slices of each cost."""
    yield from _beside_a_slow_namespace(server, waiting)
    for batch in COSTS:
        yield from _costs(server, rounds, batch, keys_of_each)


def _beside_a_slow_namespace(server: Server, waiting: int) -> Iterator[Row]:
    """Let one namespace stay at its limit, with a backlog, and let others come."""
    server.connection.execute("FLUSHALL")
    queue, slow = _fair(server, "limited", LIMIT), Distq(server.connection, "limited", limit=LIMIT)
    fill(queue, (f"slow/{number}" for number in count()), waiting)
    assert slow.turn(LIMIT) == LIMIT  # and never settles
    turns: list[float] = []
    worst = 0
    for number in range(50):
        queue.add([f"quick-{number % OTHERS}/{number}"])
        for place in count(1):  # noqa: B007  # it is compared below
            begin = server.cpu()
            claimed = queue.turn(8)
            turns.append(server.cpu() - begin)
            if claimed:
                break
        worst = max(worst, place)
    (left,) = queue.store.read(("ZCARD", "ready"))
    while left:
        begin = server.cpu()
        queue.turn(8)
        turns.append(server.cpu() - begin)
        (left,) = queue.store.read(("ZCARD", "ready"))
    what = f"{server.kind}: {waiting:,} items of a namespace at its limit"
    yield Row(f"{what}: turns until another's item is claimed", worst, "turns", 1)
    yield Row(f"{what}: longest turn that holds some back", max(turns), "µs", LONGEST_TURN)
    yield Row(f"{what}: turns until all are held back", len(turns), "turns", waiting / 250 + 60)
    for number in range(50):
        queue.add([f"quick-{number % OTHERS}/late-{number}"])
        begin = server.cpu()
        assert queue.turn(8) == 1
        turns[number] = server.cpu() - begin
    yield Row(f"{what}: a turn beside them", median(turns[:50]), "µs", LONGEST_TURN)


def _costs(
    server: Server, rounds: int, batch: int, keys_of_each: Callable[[], Iterator[str]]
) -> Iterator[Row]:
    server.connection.execute("FLUSHALL")
    found = cycle.measure(
        server,
        {"limited": _fair(server, "limited", 10_000), "fair": _fair(server, "fair", None)},
        depth={"limited": 10_000, "fair": 10_000},
        batch=batch,
        slices=rounds,
        items=max(1000, batch) if batch > 1 else 100,
        keys_of_each=keys_of_each,
    )
    how = f"{server.kind}: batches of {batch}" if batch > 1 else f"{server.kind}: one at a time"
    limited, fair = median(found["limited"].turn), median(found["fair"].turn)
    yield Row(
        f"{how}: settle and claim, with a limit of each flow against none", limited, "µs", COSTS[batch], fair
    )


def _fair(server: Server, name: str, limit: int | None) -> Distq:
    queue = Distq(server.connection, name, limit=limit)
    queue.store.share("namespace")
    return queue
