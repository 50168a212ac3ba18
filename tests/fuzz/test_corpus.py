"""Every parser of outside input answers, or raises an error of its own, for every input."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz.__main__ import CORPUS, begin, is_sound
from tests.fuzz.parsers import PARSERS, parser

INPUTS = sorted(CORPUS.glob("*/*"))


@pytest.mark.parametrize("name", PARSERS)
def test_a_finding_that_was_fixed_stays_fixed(name: str) -> None:
    """All inputs of the corpus: what each parser is for, and what once broke it."""
    for file in (each for each in INPUTS if each.parent.name == name):
        try:
            PARSERS[name](file.read_bytes())
        except Exception as error:
            error.add_note(f"given {file}")
            raise


def test_every_parser_has_a_corpus() -> None:
    """Fuzzing begins with inputs that are nearly right."""
    assert {file.parent.name for file in INPUTS} == PARSERS.keys()


@pytest.mark.skipif(find_spec("atheris") is None, reason="no atheris: pip install -e '.[ci]'")
def test_the_fuzzer_finds_a_planted_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names an unexpected exception, and the input that raised it."""

    @parser
    def mistaken(data: bytes) -> None:
        if data:
            raise KeyError("planted")

    monkeypatch.setattr("tests.fuzz.__main__.FOUND", tmp_path)
    monkeypatch.setattr("tests.fuzz.__main__.CORPUS", tmp_path)
    (tmp_path / "mistaken").mkdir()
    (tmp_path / "corpus").mkdir()
    try:
        process = begin("mistaken", ["-max_total_time=5"], tmp_path / "corpus")
        assert not is_sound("mistaken", process, tmp_path / "corpus")
    finally:
        del PARSERS["mistaken"]
    assert "planted" in (tmp_path / "corpus" / "mistaken.txt").read_text()
    assert list(tmp_path.glob("mistaken-*"))
