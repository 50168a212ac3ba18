"""The processes of the fleet, of each name one at a time, and what all of them wrote down."""

from collections.abc import Callable

from tests.proofs.nemesis.fleet_process import FleetProcess
from tests.proofs.nemesis.journal import Add, Attempt, Reconcile
from tests.proofs.nemesis.judge import Span


class Fleet:
    """What runs, and what ran since the load began; ``make`` starts a process, of a name, in a folder."""

    def __init__(self, make: Callable[[str, str], FleetProcess]) -> None:
        self.processes: dict[str, FleetProcess] = {}
        self._make = make
        self._past: list[FleetProcess] = []
        self._starts = 0

    def start(self, name: str) -> None:
        """Start one, or its next incarnation."""
        self._starts += 1
        if name in self.processes:
            self._past.append(self.processes[name])
        self.processes[name] = self._make(name, f"{name}.{self._starts}")

    def tend(self) -> list[str]:
        """Start again what ended, as its Deployment does; return a line for each unexpected end."""
        unexpected: list[str] = []
        for name, process in list(self.processes.items()):
            if process.has_ended():
                if not process.is_leaving and process.status not in {0, -9}:
                    unexpected.append(f"{name} ended with {process.status}")
                self.start(name)
        return unexpected

    def named(self, *kinds: str) -> list[FleetProcess]:
        """Return the processes of these kinds: worker, producer, informer."""
        return [process for name, process in self.processes.items() if name.partition("-")[0] in kinds]

    def every_process(self) -> list[FleetProcess]:
        """Return all, those that ended, too."""
        return [*self._past, *self.processes.values()]

    def forget(self) -> None:
        """Forget all notes; later ones count."""
        self._past = []
        for process in self.processes.values():
            process.journal.forget()

    def kill_all(self) -> None:
        """SIGKILL every process."""
        for process in self.every_process():
            process.kill()

    # What they wrote down

    def adds(self) -> list[Add]:
        """Return what producers added and Redis acknowledged."""
        return [add for process in self._read() for add in process.journal.adds]

    def reconciles(self) -> list[Reconcile]:
        """Return what ran."""
        return [run for process in self._read() for run in process.journal.reconciles.values()]

    def attempts(self) -> list[Attempt]:
        """Return what was settled."""
        return [attempt for process in self._read() for attempt in process.journal.attempts]

    def frozen(self) -> dict[str, list[Span]]:
        """Return when nothing of which process could run."""
        every = ((each.folder.name, [*each.frozen, *each.journal.stalled]) for each in self._read())
        return {name: spans for name, spans in every if spans}

    def said(self, text: str) -> int:
        """Return how often a text is in the logs."""
        return sum(process.log().count(text) for process in self.every_process())

    def _read(self) -> list[FleetProcess]:
        for process in self.every_process():
            process.close_journal()
        return self.every_process()
