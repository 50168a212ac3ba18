"""Pages and messages are plain: they have none of the patterns that readers stumble over."""

import pytest

from tests.docs import prose


def test_no_page_and_no_message_has_one_of_the_patterns() -> None:
    """Use a plain verb, and name the actor (CONTRIBUTING.md, Write a page)."""
    assert {name: words for name, text in prose.texts() if (words := prose.found(text))} == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The log tells who may repair.", ["tells", "who may"]),
        ("It is whatever Redis has, however many wait.", ["whatever", "however many"]),
        ("It runs all the same: it turns out that the same numbers count.", ["all the same", "turns out"]),
        ("Thus the handler hears of it; the thread and the part therein.", ["Thus", "hears", "therein"]),
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
