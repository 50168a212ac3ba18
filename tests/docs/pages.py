"""The pages of the documentation, README.md first, and their contents: prose, blocks, tables, links."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block; ``title`` is its first line, by which a runner is found."""

    language: str
    text: str

    @property
    def title(self) -> str:
        """Return the first line."""
        return self.text.partition("\n")[0]

    @property
    def file(self) -> str:
        """Return the name of the file that it shows, as in ``# foos.py``; empty for what is no file."""
        named = re.fullmatch(r"# (\S+\.(?:py|yaml))", self.title)
        return named[1] if named else ""


class Page:
    """A Markdown page."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(ROOT).as_posix()
        self.text = path.read_text()

    def __repr__(self) -> str:
        return self.name

    @cached_property
    def blocks(self) -> list[Block]:
        """Return the blocks in their order, less Sphinx's directives, which the build of the pages runs."""
        return [Block(language, text) for language, text in _BLOCK.findall(self.text) if language[:1] != "{"]

    @cached_property
    def prose(self) -> str:
        """Return the page without its blocks."""
        return _BLOCK.sub("", self.text)

    @property
    def links(self) -> list[tuple[str, str]]:
        """Return text and target of each link, without the text's backquotes."""
        return [(text.strip("`"), target) for text, target in _LINK.findall(self.prose)]


PAGES = [Page(ROOT / name) for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")]
PAGES += map(Page, sorted(DOCS.rglob("*.md")))
BLOCKS = list(dict.fromkeys(block for page in PAGES for block in page.blocks))
"""All blocks; what several pages show alike is one."""


def table(*header: str) -> list[list[str]]:
    """Return the cells of each row of the table whose first line begins with these cells."""
    beginning = f"\n| {' | '.join(header)} |"
    (shown,) = {after.partition("\n\n")[0] for page in PAGES for after in page.text.split(beginning)[1:]}
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in shown.splitlines()[2:]]
