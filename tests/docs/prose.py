"""Patterns of prose that readers stumble over; ``python -m tests.docs.prose`` prints where they are."""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache

from tests.docs.pages import PAGES, ROOT

PATTERNS = {
    "tell, told": r"tell|tells|told|telling",
    "a person who is nobody in particular": r"nobody|whoever|somebody|anybody|everybody|no one",
    "a clause with who or what as a noun": (
        r"who may|who wants|who has to|[.;:] who \w+|(?:for|to|from|by|than) who|of whom|by whom|"
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
_CODE = re.compile(r"`+[^`\n]*`+")
_LINK_TARGET = re.compile(r"\]\([^)\s]+\)")
_MARKUP = re.compile(r"<[^>]*>|\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)


@cache
def texts() -> list[tuple[str, str]]:
    """Return each file with its prose: pages without code; messages, templates and comments of distq."""
    return [*_texts()]


def _texts() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        yield page.name, _LINK_TARGET.sub("]", _CODE.sub("", page.prose))
    for name, source in _sources("**/*.py"):
        nodes = [*ast.walk(ast.parse(source))]
        yield name, "\n".join(messages(nodes))
        yield f"{name}, comments", _CODE.sub("", comments(source, nodes))
    for name, source in _sources("**/*.html"):
        yield name, _MARKUP.sub(" ", source)
    for name, source in _sources("**/*.lua"):
        yield name, _CODE.sub("", lua_comments(source))


def _sources(glob: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "distq").glob(glob)):
        yield path.relative_to(ROOT).as_posix(), path.read_text()


def messages(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the strings of a module that are sentences or parts of them, and no docstrings."""
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if not isinstance(node, ast.Constant) or id(node) in alone:
            continue
        if isinstance(node.value, str) and " " in node.value:
            yield node.value


def comments(source: str, nodes: Iterable[ast.AST]) -> str:
    """Return the docstrings of a module, a line each, then a line with all its comments."""
    docstrings = [
        node.value.value
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
    ]
    signs = [
        token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    return "\n".join(" ".join(text.split()) for text in [*docstrings, " ".join(signs)])


def lua_comments(source: str) -> str:
    """Return the comments of a script, on one line; a line with three dashes is an instruction."""
    return " ".join(re.findall(r"(?<!-)-- (.*)", source))


def found(text: str) -> list[str]:
    """Return the words of a text that match a pattern."""
    return [match[0] for match in _FOUND.finditer(text)]


def main() -> None:
    """Print each match, then how many there are."""
    matches = [f"{name}: {word}\n" for name, text in texts() for word in found(text)]
    sys.stdout.write("".join([*matches, f"{len(matches)} in all\n"]))


if __name__ == "__main__":
    main()
