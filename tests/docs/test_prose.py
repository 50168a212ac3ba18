"""Pages and messages are plain: patterns that readers stumble over become fewer, in each file."""

import pytest

from tests.docs import prose


def test_no_file_has_more_of_the_patterns_than_before() -> None:
    """Each has at most what ``prose.toml`` allows, a new file none: a plain verb, and the actor by name."""
    allowed = prose.allowed()
    over = {
        name: sorted(set(words))
        for name, text in prose.texts()
        if len(words := prose.found(text)) > allowed.get(name, 0)
    }
    assert not over, "write these in other words (CONTRIBUTING.md, Plain English)"


def test_the_record_names_files_that_are_there() -> None:
    """A file that was moved takes its count along; ``python -m tests.docs.prose`` lowers the counts."""
    assert set(prose.allowed()) <= {name for name, _ in prose.texts()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The log tells who may repair.", ["tells", "who may"]),
        ("Nobody leads; it stands at 4711 no more.", ["Nobody", "stands", "no more"]),
        ("At most 250 claims, no more than that; the standard understands what is left.", []),
    ],
)
def test_patterns_are_found_as_words(text: str, words: list[str]) -> None:
    """Whole words, whatever their case."""
    assert prose.found(text) == words


def test_messages_are_strings_and_no_docstrings() -> None:
    """Of a module its messages count: what a user reads."""
    source = '"""Told by nobody."""\nraise ValueError(f"cannot read {name}: it stands there")\nkey = "told"\n'
    assert list(prose.messages(source)) == ["cannot read ", ": it stands there"]
