"""A terminal that is drawn whole and read key by key, and is as it was before, however the program ends."""

import os
import re
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NamedTuple, Self

from distq.cli.signals import HUNG_UP

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""Another screen, without a cursor, on which long lines are cut; and back."""

_KEY = re.compile("\x1b\\[[0-9;]*[~A-Za-z]|\x1bO[A-Z]|.", re.DOTALL)
_NAMES = {"\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left"}
_NAMES |= {"\x1bOA": "up", "\x1bOB": "down", "\x1bOC": "right", "\x1bOD": "left"}
_NAMES |= {"\x1b": "left", "\x7f": "left", "\r": "right", "\n": "right", "\t": "tab"}
_STYLES = {"plain": "", "title": "\x1b[1m", "chosen": "\x1b[7m", "quiet": "\x1b[2m"}


class Line(NamedTuple):
    """One line of the screen; ``style`` is plain, title, chosen or quiet."""

    text: str
    style: str = "plain"


class Screen:
    """The terminal of this process: ``with Screen() as screen``.

    Ctrl-C and signals end it by their exceptions; Ctrl-Z gives the terminal back until ``fg``.
    """

    def __init__(self) -> None:
        # of our own: at a hang-up those of the process become another file, and the terminal may be there
        self._typed, self._shown = os.dup(sys.stdin.fileno()), os.dup(sys.stdout.fileno())
        self._before = termios.tcgetattr(self._typed)

    def __enter__(self) -> Self:
        signal.signal(signal.SIGTSTP, self._step_aside)
        self._take()
        return self

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        self._give_back()
        os.close(self._typed)
        os.close(self._shown)

    def _take(self) -> None:
        tty.setcbreak(self._typed)
        self._write(_ENTER)

    def _give_back(self) -> None:
        with suppress(OSError, termios.error):  # its window may be closed
            self._write(_LEAVE)
        with suppress(OSError, termios.error):
            termios.tcsetattr(self._typed, termios.TCSADRAIN, self._before)

    def _step_aside(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # signal's signature
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)  # SIGTSTP would only call this again
        self._take()

    @property
    def height(self) -> int:
        """Return how many lines the terminal has now."""
        return shutil.get_terminal_size().lines

    def draw(self, lines: Sequence[Line]) -> None:
        """Show these lines, from the top, and nothing else; those that do not fit are left out."""
        width, height = shutil.get_terminal_size()
        drawn = (f"{_STYLES[line.style]}{line.text[:width]}\x1b[0m\x1b[K" for line in lines[:height])
        self._write("\x1b[H" + "\r\n".join(drawn) + "\x1b[J")

    def keys(self, seconds: float) -> list[str]:
        """Return what was typed, waiting so long at most; letters, and names such as ``up``."""
        readable, _, _ = select.select([self._typed], [], [], seconds)
        if not readable:
            return []
        typed = os.read(self._typed, 1024)
        if not typed:  # the end of a file: the terminal is gone
            sys.exit(HUNG_UP)
        return [_NAMES.get(key, key) for key in _KEY.findall(typed.decode(errors="ignore"))]

    def _write(self, text: str) -> None:
        rest = text.encode(sys.stdout.encoding, errors="replace")
        while rest:
            rest = rest[os.write(self._shown, rest) :]
