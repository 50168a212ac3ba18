"""Plays a schedule, then lets everything come to its end, and looks whether anything was lost."""

from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from distq.redisio.checkpoints import checkpoint_of
from distq.redisio.connection import Connection
from distq.redisio.stream_store import StreamStore
from tests.proofs.simulate.asked import Inputs, Saved
from tests.proofs.simulate.faulty_line import FaultyLine
from tests.proofs.simulate.model_cluster import ModelCluster
from tests.proofs.simulate.model_redis import ModelRedis
from tests.proofs.simulate.obligations import Obligations
from tests.proofs.simulate.queue_history import QueueHistory, Segment
from tests.proofs.simulate.schedule import INFORMERS, WORKERS, Action, Schedule
from tests.proofs.simulate.simulated_informer import SimulatedInformer
from tests.proofs.simulate.simulated_worker import CLAIM_DURATION, SimulatedWorker
from tests.proofs.simulate.stepped_thread import ProcessKilled, SteppedClock
from tests.proofs.simulate.violation import Violation

EPOCH = 1_795_000_000.0
LONGEST_SLEEP = 0.3
"""Seconds that a step waits for a process which sleeps."""
ROUNDS = 150
"""Seconds in which everything must have come to its end."""
FAILOVER = 0.01
"""Seconds that Redis takes to go back; so its clock is ahead of what it has lost."""
CALM = 3
"""Seconds without anything to do after which that is so: a probe has come, and found nothing."""

COUNTED = {"roll back", "wipe", "compact", "kill", "delete lease", "fault"}

Log = Callable[[str], None]


class Simulation:
    """One world."""

    def __init__(self, schedule: Schedule, log: Log | None = None) -> None:
        self.moment = 0
        self.seen: Counter[str] = Counter()
        self.clock = SteppedClock(EPOCH)
        self.cluster = ModelCluster()
        self.redis = ModelRedis(self._server_time)
        self.touched: dict[str, int] = {}
        self.history = QueueHistory(self.touched)
        self.obligations = Obligations(self.cluster, self.history, mapped=schedule.mapped)
        self._schedule = schedule
        self._log = log
        self._clock_ahead = self._most_ahead = 0.0
        self._lost_at = 0
        self._shortened_until = 0.0
        self._clock_went_back = False
        if schedule.fair:
            self.redis.run("fair_by", {"fair_by": "namespace"})
        self._saved: list[tuple[Saved, Segment]] = [(self.redis.save(), self.history.save())]
        self._violation: Violation | None = None
        self._ghosts: dict[str, deque[tuple[str, Inputs]]] = {
            name: deque() for name in (*INFORMERS, *WORKERS)
        }
        self._actions: dict[str, Callable[..., None]] = {
            "informer": self._step_informer,
            "worker": self._step_worker,
            "write": self._write,
            "delete": self._delete,
            "pass": self.clock.step,
            "fault": self._fault,
            "ghost": self._ghost,
            "kill": self._kill,
            "leave": self._leave,
            "save": self._save,
            "roll back": self._roll_back,
            "wipe": self._wipe,
            "clock": self._step_clock,
            "compact": self.cluster.compact,
            "break": self._break_watches,
            "bookmark": self._bookmark,
            "delete lease": self._delete_lease,
            "unreachable": self._refuse,
            "list all": self._list_all,
        }
        self._informers = {name: self._informer(name) for name in INFORMERS}
        self._workers = {name: self._worker(name) for name in WORKERS}

    def play(self) -> None:
        """Play the schedule to its end; raise Violation."""
        try:
            for action in self._schedule.actions:
                self.act(action)
                self.seen[action[0]] += action[0] in COUNTED
            self.redis.look()
            self.drain()
            self.redis.look()
            self.obligations.check()
        finally:
            for informer in self._informers.values():
                informer.kill()
        self.seen["actions"] = len(self._schedule.actions)
        self.seen["lists"] = len(self.cluster.listed)
        self.seen["terms"] = self.cluster.terms
        self.seen["reconciles"] = self.obligations.count()

    def act(self, action: Action) -> None:
        """Do one action."""
        self.moment += 1
        kind, *arguments = action
        if self._log:
            self._log(f"{self.moment:4} {self.clock.monotonic():7.2f} {' '.join(map(str, action))}")
        self._actions[kind](*arguments)
        if self._violation is not None:
            raise self._violation

    def drain(self) -> None:
        """Stop all faults, and let everything that is to be done be done; raise Violation where it is not."""
        self.cluster.unreachable = 0
        self._step_clock(self._most_ahead - self._clock_ahead)
        for name in (*INFORMERS, *WORKERS):
            while self._ghosts[name]:
                self.act(("ghost", name))
            if line := self._line_of(name):
                line.faults.clear()
        calm = 0
        for _ in range(ROUNDS):
            calm = calm + 1 if self._is_calm() else 0
            if calm > CALM:
                return
            self._round()
        raise Violation("everything ends", f"not within {ROUNDS} s: {self.redis.state.items.__dict__}")

    def _round(self) -> None:
        """Let a second pass, in which all processes do everything that there is to do."""
        self.act(("pass", 1.0))
        for name in INFORMERS:
            for _ in range(30):
                self.act(("informer", name, True))
                if (
                    self._informers[name].waits_until > self.clock.monotonic()
                    or not self._informers[name].thread
                ):
                    break
        if dead := [name.encode() for name in self.redis.state.items.dead]:
            self._run("people", "requeue", {"state": "dead", "items": dead})
        for name in WORKERS:
            for _ in range(12):
                if self._workers[name].idle and not self._is_anything_left():
                    break  # it would ask for nothing, and get nothing: most of what these rounds cost
                self.act(("worker", name, 0.0))
                if self._workers[name].idle and self._workers[name].turned:
                    break

    def _is_calm(self) -> bool:
        state, changes = self.redis.state, self.cluster.changes
        if self._is_anything_left() or not all(each.idle for each in self._workers.values()):
            return False
        stream = next(iter(state.streams.all.values()), None)
        checkpoint = checkpoint_of(stream.position) if stream else ""
        caught_up = checkpoint.isdecimal() and (not changes or int(checkpoint) >= changes[-1].version)
        return caught_up and any(each.thread for each in self._informers.values())

    def _is_anything_left(self) -> bool:
        items = self.redis.state.items
        return bool(items.pending or items.claims or items.dead)

    # Processes

    def _informer(self, name: str) -> SimulatedInformer:
        def connect(process: str, pause: Callable[[], None]) -> FaultyLine:
            return self._connect(process, pause)

        schedule = self._schedule
        return SimulatedInformer(
            name, self.cluster, self.clock, connect, mapped=schedule.mapped, resync=schedule.resync
        )

    def _worker(self, name: str) -> SimulatedWorker:
        return SimulatedWorker(
            name, self._connect(name, lambda: None), self.clock, self._schedule.limit or None
        )

    def _connect(self, process: str, pause: Callable[[], None]) -> FaultyLine:
        ghosts = self._ghosts.get(process, deque())
        return FaultyLine(
            process, self._run, self.redis.read, self._server_seconds, ghosts=ghosts, before_each=pause
        )

    def _line_of(self, name: str) -> FaultyLine | None:
        return self._informers[name].line if name in self._informers else self._workers[name].line

    def _run(self, process: str, script: str, inputs: Inputs) -> Any:
        """Run a script for a process, and look at what it did."""
        before = self.history.before(self.redis.state)
        reply = self.redis.run(script, inputs)
        self.seen[script] += 1
        if self._log:
            self._log(f"{'':12}   {process}: {script} {_shown(inputs)} -> {reply!r:.160}")
        try:
            self.history.check(script, inputs, reply, before, self.redis.state, moment=self.moment)
        except Violation as violation:  # a stream would go on after it
            self._violation = self._violation or violation
            raise
        return reply

    def _server_time(self) -> int:
        return round(self._server_seconds() * 1e6)

    def _server_seconds(self) -> float:
        return EPOCH + self.clock.monotonic() + self._clock_ahead

    # Actions

    def _step_informer(self, name: str, renews: bool) -> None:
        informer = self._informers[name]
        late = informer.waits_until - self.clock.monotonic()
        if late > LONGEST_SLEEP:
            self.clock.step(LONGEST_SLEEP)
            return
        if late > 0:
            self.clock.step(late)
        informer.step(renews=renews)

    def _step_worker(self, name: str, choice: float) -> None:
        worker = self._workers[name]
        undisturbed = not worker.line.faults
        begun = len(worker.running)
        try:
            reconcile = worker.step(choice, self.moment)
        except ProcessKilled:
            self._workers[name] = self._worker(name)
            return
        if reconcile is not None:
            self.obligations.note_end(reconcile)
        if undisturbed and worker.answered:
            self._check_held(worker)
        for request, disposition in worker.dispositions:
            outcome = self.history.segment.settled.get((request.key, request.fence), "release")
            answered = disposition.kind != "refused" or outcome == "release"
            if not answered and not (self._lost_at and self._clock_went_back):  # else a fence may come twice
                raise Violation(
                    "a settlement is answered", f"{request} ended, but {worker.name} hears of none"
                )
        if len(worker.running) > begun:
            self._check_alone(worker)
            self.obligations.note_begin(worker.running[-1])

    def _check_held(self, worker: SimulatedWorker) -> None:
        claims = self.redis.state.items.claims
        number = int(worker.session.id.partition("-")[0] or 0)
        for request in worker.holds():
            claim = claims.get(request.key)
            if claim is None or (claim.session, claim.fence) != (number, request.fence):
                raise Violation(
                    "a heartbeat drops what Redis forgot",
                    f"{worker.name} runs {request.key}, held as {claim}",
                )

    def _check_alone(self, worker: SimulatedWorker) -> None:
        begun = worker.running[-1]
        key = begun.request.key
        for other in self._workers.values():
            for reconcile in other.running:
                if other is worker or reconcile.request.key != key or reconcile.request.cancelled.is_set():
                    continue
                undisturbed = self.clock.monotonic() >= self._shortened_until
                since = min(reconcile.claimed, begun.claimed, other.confirmed_at)
                if undisturbed and since > self._lost_at:
                    raise Violation("exclusive", f"{other.name} still runs {key} when {worker.name} begins")

    def _write(self, name: int, owner: int) -> None:
        self.cluster.write(f"object-{name}", f"owner-{owner}", self.moment)
        self._note_change()

    def _delete(self, name: int) -> None:
        if f"object-{name}" in self.cluster.objects:
            self.cluster.delete(f"object-{name}", self.moment)
            self._note_change()

    def _note_change(self) -> None:
        change = self.cluster.changes[-1]
        for key in self.obligations.keys_of(change):
            self.touched[key] = change.version

    def _fault(self, process: str, fault: str) -> None:
        if line := self._line_of(process):
            line.faults.append(fault)

    def _ghost(self, process: str) -> None:
        if ghosts := self._ghosts[process]:
            self._run(process, *ghosts.popleft())

    def _kill(self, process: str) -> None:
        if process in self._informers:
            self._informers[process].kill()
        else:
            self._workers[process] = self._worker(process)

    def _leave(self, process: str) -> None:
        with suppress(ProcessKilled):
            self._workers[process].leave()
        self._workers[process] = self._worker(process)

    def _save(self) -> None:
        self._saved.append((self.redis.save(), self.history.save()))

    def _roll_back(self, places: int) -> None:
        del self._saved[max(1, len(self._saved) - places) :]
        saved, segment = self._saved[-1]
        self.redis.go_back(saved)
        self._note_loss(segment)
        self._saved[-1] = saved, self.history.save()

    def _wipe(self) -> None:
        self.redis.wipe()
        self._note_loss(Segment())
        self._saved = []
        self._save()

    def _note_loss(self, segment: Segment) -> None:
        self._lost_at = self.moment
        self.clock.step(FAILOVER)
        self.history.note_loss(self.redis.state.streams.known, self.moment)
        self.history.go_back(segment, clock_went_back=self._clock_went_back)

    def _step_clock(self, seconds: float) -> None:
        self._clock_ahead += seconds
        self._most_ahead = max(self._most_ahead, self._clock_ahead)
        if seconds > 0:  # the claim clock takes a part of the step for time: claims end sooner, once
            self._shortened_until = self.clock.monotonic() + CLAIM_DURATION
        if seconds < 0:
            self._clock_went_back = True
            if self._lost_at:
                self.history.fences.clear()

    def _break_watches(self) -> None:
        self.cluster.broken += 1

    def _bookmark(self) -> None:
        self.cluster.bookmarks += 1

    def _delete_lease(self) -> None:
        self.cluster.lease = None
        self.cluster.transitions = 0

    def _refuse(self, requests: int) -> None:
        self.cluster.unreachable = requests

    def _list_all(self) -> None:
        stream = next(iter(self.redis.state.streams.all), None)
        if stream is not None:
            connection = cast("Connection", self._connect("people", lambda: None))
            StreamStore(connection, "foos", stream).list_all()


def _shown(inputs: Inputs) -> str:
    """Return what matters of a call, for the log."""
    hidden = {"about", "worker", "layout", "claim_duration", "max_clock_step", "limiter", "time", "nonce"}
    return " ".join(f"{name}={value}" for name, value in inputs.items() if name not in hidden and value != "")
