"""One fault after another on live fleets, and what is judged of each."""

import math
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import SimpleQueue

from distq.errors import DistqError
from distq.testing import envtest
from tests import ROOT
from tests.proofs.nemesis import judge
from tests.proofs.nemesis.catalogue import Fault
from tests.proofs.nemesis.evidence import evidence
from tests.proofs.nemesis.journal import Change, Reconcile
from tests.proofs.nemesis.lanes import FLEETS, Group, Lanes, Planned
from tests.proofs.nemesis.report import Row
from tests.proofs.nemesis.stage import AT_REST_WITHIN, LIMITED, Stage
from tests.proofs.nemesis.traces import violations as traces_checked
from tests.support.api_servers import ApiServer, EmulatedServer, RealApiServer

BEFORE, AFTER = 1.0, 1.0
"""Seconds of load before a fault, and after it; it goes on in between."""

WORK = {"ready", "suspects", "held_back", "dirty", "processing", "delayed"}
"""What holds items; the rest says something of them."""
SPOILED = {"dirty"}
"""What an item may be in for good, where its claim was deleted: until it is added again."""


class Campaign:
    """Runs faults one after another on a fleet, and several fleets at the same time.

    None begins after ``until``, by CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        seed: int,
        claim_duration: float,
        say: Callable[[str], None],
        *,
        root: Path = ROOT,
        until: float = math.inf,
    ) -> None:
        self._seed = seed
        self._claim_duration = claim_duration
        self._say = say
        self._root = root
        self._until = until
        self._assets: Path | None = envtest.assets()

    def run(self, plan: Sequence[Planned]) -> Iterator[Row]:
        """Yield a row for each once it is judged; a fleet that a fault left in a bad state is replaced."""
        lanes = Lanes(plan)
        rows = SimpleQueue[Row | None]()
        with ThreadPoolExecutor(FLEETS) as pool:
            fleets = [pool.submit(self._in_lane, lanes, rows) for _ in range(FLEETS)]
            for _ in fleets:
                yield from iter(rows.get, None)
        for fleet in fleets:
            fleet.result()

    def _in_lane(self, lanes: Lanes, rows: "SimpleQueue[Row | None]") -> None:
        """Put a row for each fault, and None at the end, however it comes."""
        try:
            while time.monotonic() < self._until and (group := lanes.next_group()):
                for row in self._on_one_fleet(group):
                    rows.put(row)
                lanes.leave(group)
        finally:
            rows.put(None)

    def _on_one_fleet(self, group: Group) -> Iterator[Row]:
        """Yield rows of the group's faults, until none is left or the fleet is beyond repair."""
        real = self._assets is not None and group.wants_real_server()
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix=f"distq-nemesis-{group.kind}-"))
            api = self._api_server(stack, real=real)
            stage = stack.enter_context(
                Stage(
                    folder,
                    group.kind,
                    api,
                    random.Random(f"{self._seed} {group.kind} {group.topology} {group.limit} {group.begun}"),
                    claim_duration=self._claim_duration,
                    topology=group.topology,
                    limit=group.limit,
                    root=self._root,
                )
            )
            while time.monotonic() < self._until and (fault := group.pop()):
                if fault.real and not real:
                    continue
                row = self._inflict(stage, fault)
                yield row
                if not row.passed:
                    self._say(f"      journals and logs: {folder}")
                    return
                if fault.spoils:
                    break
            shutil.rmtree(folder, ignore_errors=True)

    def _api_server(self, stack: ExitStack, *, real: bool) -> ApiServer:
        if real and self._assets is not None:
            return stack.enter_context(RealApiServer(self._assets))
        return stack.enter_context(EmulatedServer())

    def _inflict(self, stage: Stage, fault: Fault) -> Row:
        row = Row(fault.name, fault.what, fault.required, _where(stage), stage.api.kind)
        lapsed = stage.fleet.said("session lost")
        for act in (self._play, self._come_to_rest):
            try:
                act(stage, fault)
            except Exception as error:  # noqa: BLE001 - an error of any kind in a scene fails its row, and no other
                row.wrong.append(f"{type(error).__name__}: {error}")
                stage.healed_from = stage.healed_from or time.monotonic()
        if fault.spares_sessions and (lost := stage.fleet.said("session lost") - lapsed) > 0:
            row.wrong.append(f"{lost} sessions lapsed")
        row.permitted_overlap = fault.permitted_overlap(self._claim_duration, stage.lateness.slack())
        _judge(stage, fault, row)
        return row

    @staticmethod
    def _play(stage: Stage, fault: Fault) -> None:
        stage.begin_load(traced=not fault.untraced)
        stage.sleep(BEFORE)
        fault.inflict(stage)
        if not stage.healed_from:
            stage.cause_is_gone()
        stage.sleep(AFTER)

    @staticmethod
    def _come_to_rest(stage: Stage, fault: Fault) -> None:
        stage.end_load()
        stage.until(lambda: _is_at_rest(stage, fault), "all is done", within=AT_REST_WITHIN)


def _where(stage: Stage) -> str:
    topology = "" if stage.topology == "one server" else f", {stage.topology}"
    limit = "" if stage.limit is None else f", {stage.limit} of a namespace"
    return f"{stage.kind}{topology}{limit}"


def _is_at_rest(stage: Stage, fault: Fault) -> bool:
    try:
        stage.revive_dead()
        excess = stage.left_over()
    except DistqError:
        return False
    if any((WORK - SPOILED) & each.keys() for each in excess.values()) if fault.spoils else excess:
        return False
    runs = stage.fleet.reconciles()
    owed = [] if fault.forgets else judge.unmet(stage.adds(), runs)
    return not owed and not judge.unseen(_changes(stage, fault), runs)


def _changes(stage: Stage, fault: Fault) -> list[Change]:
    """Return the changes that a reconcile must have seen: without deleted objects, if Redis forgets."""
    changes = stage.gardener.changes()
    gone = {
        change.key
        for change in changes
        if fault.forgets and change.key.split("/")[1] not in stage.gardener.living
    }
    return [change for change in changes if change.key not in gone]


def _judge(stage: Stage, fault: Fault, row: Row) -> None:
    adds, runs, attempts = stage.adds(), stage.fleet.reconciles(), stage.fleet.attempts()
    owed, unseen = judge.unmet(adds, runs), judge.unseen(_changes(stage, fault), runs)
    row.adds, row.reconciles = len(adds), len(runs)
    row.forgotten = len(owed) if fault.forgets else 0
    row.lost = len(owed) + len(unseen) - row.forgotten
    row.zombies = len(judge.zombies(attempts, runs))
    pairs = sorted(judge.overlaps(runs, stage.fleet.frozen()), key=lambda pair: -pair.seconds)
    row.overlap = round(pairs[0].seconds, 4) if pairs else 0.0
    row.healing = round(judge.healing(adds, stage.gardener.changes(), runs, stage.healed_from), 2)
    row.notes += stage.notes
    row.wrong += stage.surprises + _found_in_trace(stage, fault, row, runs)
    if row.lost:
        row.wrong.append(f"lost: {[add.key for add in owed if not fault.forgets][:5] + unseen[:5]}")
    if row.zombies:
        row.wrong.append(f"{row.zombies} settlements of zombies were accepted")
    if row.overlap > row.permitted_overlap:
        row.wrong.append(f"{len(pairs)} overlaps: {pairs[0].one} and {pairs[0].other}")
    if stage.limit is not None:
        _judge_limit(stage, row, runs, stage.limit)
    if stale := judge.stale_fences(runs, row.permitted_overlap):
        row.wrong.append(f"{len(stale)} fences did not grow: {stale[0]}")
    try:
        if (
            not fault.spoils
        ):  # one that starts again may have its session before that of the killed one lapses
            with suppress(TimeoutError):
                stage.until(lambda: not stage.left_over(), "none", within=2 * stage.claim_duration)
        if excess := stage.left_over():
            (row.notes if fault.spoils else row.wrong).append(f"left over: {excess}")
    except DistqError as error:
        row.wrong.append(str(error))
    if row.wrong:
        doubtful = [*(add.key for add in owed), *unseen, *(pair.one.key for pair in pairs)]
        row.evidence = evidence(stage, dict.fromkeys(doubtful))


def _judge_limit(stage: Stage, row: Row, runs: Sequence[Reconcile], limit: int) -> None:
    """Judge how many items of a namespace ran; more may for as long as two runs of one key may overlap."""
    for queue in LIMITED:
        ours = [run for run in runs if run.queue == queue]
        frozen = stage.fleet.frozen()
        row.crowd = max([row.crowd, *(len(crowd.runs) for crowd in judge.crowds(ours, frozen, limit - 1))])
        crowds = sorted(judge.crowds(ours, frozen, limit), key=lambda crowd: -crowd.seconds)
        if crowds and crowds[0].seconds > row.permitted_overlap:
            worst = crowds[0]
            row.wrong.append(
                f"{queue}: {len(worst.runs)} of {worst.namespace} ran at once for {worst.seconds:.3f} s, "
                f"and its limit is {limit}: {worst.runs}"
            )


def _found_in_trace(stage: Stage, fault: Fault, row: Row, runs: Sequence[Reconcile]) -> list[str]:
    """Return what the checker of the trace has to say, and count the calls that it looked at."""
    if fault.untraced:
        return []
    try:
        traces = stage.traces.end()
    except AssertionError as error:
        return [str(error)]
    row.calls = sum(len(segment.entries) - segment.shared for each in traces.values() for segment in each)
    overlap = row.permitted_overlap
    return traces_checked(traces, runs, stage.fleet.frozen(), overlap=overlap, drained=not fault.spoils)[:5]
