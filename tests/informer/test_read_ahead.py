"""Received lines are handed over in one go, and only as much is read as fits."""

import threading
from collections.abc import Iterator

import pytest

from distq.clock import SYSTEM_CLOCK
from distq.informer import read_ahead
from distq.informer.read_ahead import ReadAhead
from tests.support.eventually import eventually


def take_all(reader: ReadAhead, taken: list[bytes], *, wanted: int = 1) -> None:
    """Take lines until an error ends them."""
    while True:
        taken += reader.take(1, wanted=wanted)[0]


def test_takes_all_lines_that_are_there_then_the_end() -> None:
    """Lines keep their order; the end comes after the last of them."""
    reader = ReadAhead(iter([b"a", b"b", b"c"]), "test", SYSTEM_CLOCK)
    taken: list[bytes] = []
    with pytest.raises(EOFError):
        take_all(reader, taken)
    assert taken == [b"a", b"b", b"c"]


def test_a_line_is_handed_over_when_it_comes() -> None:
    """Nothing waits for a second line."""
    release = threading.Event()

    def lines() -> Iterator[bytes]:
        yield b"a"
        release.wait(10)

    reader = ReadAhead(lines(), "test", SYSTEM_CLOCK)
    assert reader.take(5)[0] == [b"a"]
    assert reader.take(0)[0] == []
    release.set()
    reader.close()


def test_the_error_comes_after_the_lines_before_it() -> None:
    """Lines that were read before the connection broke still count."""

    def lines() -> Iterator[bytes]:
        yield b"a"
        raise OSError("reset")

    reader = ReadAhead(lines(), "test", SYSTEM_CLOCK)
    taken: list[bytes] = []
    with pytest.raises(OSError, match="reset"):
        take_all(reader, taken)
    assert taken == [b"a"]


@pytest.mark.bound("READ_AHEAD_LINES", "READ_AHEAD_BYTES")
@pytest.mark.parametrize(("bound", "value"), [("READ_AHEAD_LINES", 3), ("READ_AHEAD_BYTES", 3)])
def test_reads_only_as_much_as_fits(monkeypatch: pytest.MonkeyPatch, bound: str, value: int) -> None:
    """A sink that waits for Redis makes the socket fill, not the memory: by lines, and by bytes."""
    monkeypatch.setattr(read_ahead, bound, value)
    read: list[int] = []

    def lines() -> Iterator[bytes]:
        for number in range(100):
            read.append(number)
            yield b"%d" % (number % 10)

    reader = ReadAhead(lines(), "test", SYSTEM_CLOCK)
    eventually(lambda: len(read) == 4)
    assert len(reader.take(1)[0]) == 3
    eventually(lambda: len(read) == 7)
    reader.close()
    assert len(read) <= 8


@pytest.mark.parametrize(("wanted", "pauses"), [(1, 0), (500, 2)])
def test_lines_gather_in_the_socket_only_for_a_reader_that_wants_many(
    wanted: int, pauses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader pauses after much, but never between an event and a stream that waits for it."""
    paused: list[float] = []
    monkeypatch.setattr("distq.informer.read_ahead.sleep", paused.append)
    asked = threading.Event()

    def lines() -> Iterator[bytes]:
        asked.wait(10)
        yield from [b"x" * read_ahead.GATHERED] * 2

    reader = ReadAhead(lines(), "test", SYSTEM_CLOCK)
    reader.take(0, wanted=wanted)
    asked.set()
    with pytest.raises(EOFError):
        take_all(reader, [], wanted=wanted)
    assert paused == [read_ahead.PAUSE] * pauses


def test_a_taker_that_wants_many_lines_gets_fewer_when_they_do_not_come() -> None:
    """A taker that asks for many is woken when they are there, and after its timeout has what there is."""
    release, go_on = threading.Event(), threading.Event()

    def lines() -> Iterator[bytes]:
        yield b"a"
        release.wait(10)
        yield from (b"b", b"c", b"d")
        go_on.wait(10)

    reader = ReadAhead(lines(), "test", SYSTEM_CLOCK)
    assert reader.take(0.05, wanted=4)[0] == [b"a"]
    release.set()
    assert reader.take(10, wanted=3)[0] == [b"b", b"c", b"d"]
    go_on.set()
    with pytest.raises(EOFError):
        reader.take(10, wanted=100)
