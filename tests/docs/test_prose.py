"""Pages, messages and comments are plain: they have none of the patterns that readers stumble over."""

import ast

import pytest

from tests.docs import prose


def test_no_page_no_message_and_no_comment_has_one_of_the_patterns() -> None:
    """Use a plain verb, and name the actor (CONTRIBUTING.md, Write a page)."""
    assert {name: words for name, text in prose.texts() if (words := prose.found(text))} == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The log tells who may repair.", ["tells", "who may"]),
        ("It is whatever Redis has, however many wait.", ["whatever", "however many"]),
        ("It runs all the same: it turns out that the same numbers count.", ["all the same", "turns out"]),
        ("Thus the handler hears of it; the thread and the part therein.", ["Thus", "hears", "therein"]),
        ("It waits: who claims, reads it. The user, who claims, reads it.", [": who claims"]),
        ("Nobody leads; it stands at 4711 no more.", ["Nobody", "stands", "no more"]),
        ("At most 250 claims, no more than that; the standard understands what is left.", []),
    ],
)
def test_patterns_are_found_as_words(text: str, words: list[str]) -> None:
    """Whole words, in any case."""
    assert prose.found(text) == words


def test_messages_are_strings_and_no_docstrings() -> None:
    """Of a module its messages count: the texts that a user reads."""
    source = '"""Told by nobody."""\nraise ValueError(f"cannot read {name}: it stands there")\nkey = "told"\n'
    assert list(prose.messages([*ast.walk(ast.parse(source))])) == ["cannot read ", ": it stands there"]


def test_comments_are_docstrings_and_signs_and_no_strings() -> None:
    """Of a module its docstrings and comments count, also where a line breaks within a pattern."""
    source = (
        '"""Told by\n    nobody."""\n'
        "x = 'upon # no comment'  # it waits no\n"
        "# more, as ``whatever`` says\n"
        'def f():\n    """It stands."""\n'
    )
    text = prose.comments(source, [*ast.walk(ast.parse(source))])
    assert text == "Told by nobody.\nIt stands.\nit waits no more, as ``whatever`` says"
    assert prose.found(text) == ["Told", "nobody", "stands", "no more", "whatever"]


def test_comments_of_scripts_are_the_text_behind_two_dashes() -> None:
    """Of a script its comments count, at the beginning of a line and behind code."""
    source = "-- Whoever claims\n--- @include told\nlocal stands = 1 -- waits no\n  -- more\n"
    assert prose.lua_comments(source) == "Whoever claims waits no more"


def test_the_comments_of_all_modules_and_scripts_are_checked() -> None:
    """A glob that finds nothing would check nothing."""
    names = [name for name, _ in prose.texts()]
    wanted = {f"distq/{module}, comments" for module in ("errors.py", "workqueue/memory/items.py")}
    assert wanted | {"distq/redisio/lua/turn.lua"} <= set(names)
    assert len(names) == len(set(names))
