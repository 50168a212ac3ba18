"""Shared by tests of lists and watches: a resource that notes its open watches, and a reader of one."""

import threading
from collections.abc import Iterator
from types import TracebackType

from distq.errors import ApiError
from distq.informer.listwatch import Lines, ListerWatcher
from distq.testing.fake_list_watch import FakeListWatch
from tests.informer.pods import pod
from tests.support.eventually import eventually


class Resource(FakeListWatch):
    """A resource without an API server, which notes which of its watches are ``open``.

    It answers watches while ``answering`` is set.
    """

    def __init__(self) -> None:
        super().__init__()
        self.open: list[_Noted] = []
        self.answering = threading.Event()
        self.answering.set()

    @property
    def newest(self) -> int:
        """Return the present version, though no stream asks for it."""
        return self._version

    def happen(self, times: int = 1) -> None:
        """Let so many events happen, each with the next version."""
        for _ in range(times):
            self.add(pod("a"))

    def end_watches(self, error: Exception | None) -> None:
        """End all watches, in order or by an error."""
        for lines in list(self.open):
            lines.error = error
        self.break_watches()

    def forget(self) -> None:
        """Forget the history, and accept watches from within it nevertheless."""
        self._history.clear()

    def put_back(self, to: int) -> None:
        """Make the resource what it was at a version; watches stay open, and silent."""
        self._version = to
        self._history = [(version, line) for version, line in self._history if version <= to]
        self._watches = []

    def watch(  # type: ignore[override]
        self, version: str, *, stream_list: bool = False, brief: bool = False
    ) -> "_Noted":
        """Open a watch."""
        self.answering.wait(10)
        lines = _Noted(super().watch(version, stream_list=stream_list, brief=brief), self.open)
        self.open.append(lines)
        return lines

    def watches(self) -> list[str]:
        """Return from which versions watches were asked for."""
        return [asked.removeprefix("watch ") for asked in self.asked if asked.startswith("watch")]


class _Noted:
    """A watch that is open until who reads it is done with it; at its end it may raise an ``error``."""

    def __init__(self, lines: Lines, open_ones: "list[_Noted]") -> None:
        self.error: Exception | None = None
        self._lines = lines
        self._open = open_ones

    def __enter__(self) -> "_Noted":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.remove(self)

    def __iter__(self) -> Iterator[bytes]:
        yield from self._lines
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self._lines.close()


class Reader:
    """One that follows a member in a thread from a version on, as a Reflector does; a context manager."""

    def __init__(self, member: ListerWatcher, version: str) -> None:
        self.got: list[str] = []
        """What it got: versions, ``bad`` for a line that cannot be read."""
        self.ended = False
        self.error: Exception | None = None
        self.go_on = threading.Event()
        self.go_on.set()
        self._member = member
        self._lines = member.watch(version)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def has(self, *got: str | int) -> bool:
        """Wait until it has so much; return whether it got exactly this."""
        eventually(lambda: len(self.got) >= len(got) or self.ended, lambda: f"{self.got} is {got}")
        return self.got == [str(one) for one in got]

    def is_sent_back(self) -> bool:
        """Wait for its end; return whether that was an orderly one."""
        eventually(lambda: self.ended, "it ends")
        return self.error is None

    def close(self) -> None:
        """Leave, and wait for the end."""
        self.go_on.set()
        self._lines.close()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        try:
            with self._lines as lines:
                for line in lines:
                    self.got.append(self._decoded(line))
                    self.go_on.wait()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        self.ended = True

    def _decoded(self, line: bytes) -> str:
        try:
            return self._member.decode(line).version
        except ApiError:
            return "bad"


def shared_watch_threads() -> list[str]:
    """Return the names of the threads that read shared watches."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("distq-shared-")]
