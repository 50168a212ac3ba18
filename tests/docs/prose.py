"""Patterns of prose that readers stumble over; ``python -m tests.docs.prose`` prints where they are."""

import ast
import re
import sys
from collections.abc import Iterator

from tests.docs.pages import PAGES, ROOT

PATTERNS = {
    "tell, told": r"tell|tells|told|telling",
    "a person who is nobody in particular": r"nobody|whoever|somebody|anybody|everybody|no one",
    "a clause with who or what as a noun": (
        r"who may|who wants|who has to|(?:for|to|from|by|than) who|of whom|by whom|"
        r"what (?:fails|failed|waits|waited|came|comes|changed|remains|others|nobody|somebody)"
    ),
    "stand for be": r"stand|stands|stood|standing",
    "mend for fix": r"mend|mends|mended|mending",
    "no more for no longer": r"no more(?! than)",
    "a clause of any degree for every or many": r"whatever|however (?:many|much|long|large|often)",
    "all the same for nevertheless": r"all the same(?=[.,:;)])",
    "turn out for be found": r"turn(?:s|ed|ing)? out",
    "hear for receive": r"hear|hears|heard|hearing",
    "words of letters and laws": r"hence|thus|whence|lest|upon|there(?:of|by|in)|in (?:its|their) stead",
}
_FOUND = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in PATTERNS.values()), re.IGNORECASE)
_CODE = re.compile(r"`[^`\n]*`")
_LINK_TARGET = re.compile(r"\]\([^)\s]+\)")
_MARKUP = re.compile(r"<[^>]*>|\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)


def texts() -> Iterator[tuple[str, str]]:
    """Yield each file with its prose: pages without code, strings of the package, texts of its templates."""
    for page in PAGES:
        yield page.name, _LINK_TARGET.sub("]", _CODE.sub("", page.prose))
    for path in sorted((ROOT / "distq").rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), "\n".join(messages(path.read_text()))
    for path in sorted((ROOT / "distq").rglob("*.html")):
        yield path.relative_to(ROOT).as_posix(), _MARKUP.sub(" ", path.read_text())


def messages(source: str) -> Iterator[str]:
    """Yield the strings of a module that are sentences or parts of them, and no docstrings."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in alone:
            continue
        if isinstance(node.value, str) and " " in node.value:
            yield node.value


def found(text: str) -> list[str]:
    """Return the words of a text that match a pattern."""
    return [match[0] for match in _FOUND.finditer(text)]


def main() -> None:
    """Print each match, then how many there are."""
    matches = [f"{name}: {word}\n" for name, text in texts() for word in found(text)]
    sys.stdout.write("".join([*matches, f"{len(matches)} in all\n"]))


if __name__ == "__main__":
    main()
