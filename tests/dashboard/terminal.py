"""A terminal as a page: its text after the end of a program, for a browser to draw."""

import html
import re

_TOKENS = re.compile(r"(\x1b\[[?0-9;]*[A-Za-z]|\r|\n)")
_WITHOUT_A_TRACE = {"\r", "\x1b[?25l", "\x1b[?25h"}
"""To the line's start, where rich writes only after it has erased the line; the cursor goes, and comes."""
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"

_PAGE = """<!doctype html>
<meta charset="utf-8">
<style>
:root {{ color-scheme: light dark; }}
body {{ width: max-content; margin: 0;
        background: light-dark(#f6f8fa, #151b23); color: light-dark(#1f2328, #d1d7e0); }}
pre {{ width: {columns}ch; margin: 0; padding: 14px 18px; white-space: pre-wrap;
       font: 14px/1.4 "DejaVu Sans Mono", monospace; }}
</style>
<pre>{text}</pre>
"""


def screen(raw: str) -> list[str]:
    """Return the lines of the screen at the end; a line that was drawn anew appears once.

    ``raw`` is the output of a program that draws as rich's Live does. Bold is left in the lines, and any
    other control is a ValueError.
    """
    lines, row = [""], 0
    for token in _TOKENS.split(raw):
        if token == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif token == "\x1b[1A":
            row -= 1
        elif token == "\x1b[2K":
            lines[row] = ""
        elif token.startswith("\x1b") and token not in {_BOLD, _PLAIN} | _WITHOUT_A_TRACE:
            raise ValueError(f"a control that no line of the demo needs: {token!r}")
        elif token not in _WITHOUT_A_TRACE:
            lines[row] += token
    return lines


def page(command: str, lines: list[str], columns: int = 100) -> str:
    """Return a page of a command and what it left on the terminal, light or dark as the browser wishes."""
    text = html.escape("\n".join([f"$ {command}", *lines]).rstrip())
    text = text.replace(_BOLD, "<b>").replace(_PLAIN, "</b>")
    return _PAGE.format(columns=columns, text=text)
