"""Text from Redis, from the API server or from a key is data: it is not run, and acts on nothing."""

import ast
import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from distq.cli.logs import JsonFormatter, TextFormatter
from tests import ROOT

MODULES = sorted((ROOT / "distq").rglob("*.py"))
SCRIPTS = sorted((ROOT / "distq").rglob("*.lua"))
UNPICKLERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "code", "codeop", "runpy"}
RUN_TEXT = {"eval", "exec", "compile", "__import__"}
PLAIN_YAML = {"KubernetesLoader", "SafeLoader"}
IMPORTS_BY_NAME = {
    "distq/__init__.py": "names of its own",
    "distq/cli/target.py": "the word TARGET of the command line",
    "distq/informer/__init__.py": "names of its own",
    "distq/leaderelection/__init__.py": "names of its own",
    "distq/testing/__init__.py": "names of its own",
}
"""Which module may import what a text names, and where that text is from."""
HOSTILE = [
    "line\n12:00:00 ERROR: forged",
    "line\r12:00:00 forged",
    "\x1b[2J\x1b[1;1H\x1b]0;title\x07",
    "\x9b31m",
    "\u202egpj.exe\u2066\u2069\u200f\u061c",
    "next\u2028line\u2029and\x85more\x0b\x0c\x1c",
    "\x00\x7f\ud800\ufeff\u200b",
    '", "level": "info',
]


def offences(tree: ast.AST) -> Iterator[str]:
    """Yield what runs or loads code from data."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ({name.name.partition(".")[0] for name in node.names} & UNPICKLERS)
        elif isinstance(node, ast.ImportFrom):
            yield from ({str(node.module).partition(".")[0]} & UNPICKLERS)
        elif isinstance(node, ast.Call):
            yield from _offences_of_call(node)


def _offences_of_call(call: ast.Call) -> Iterator[str]:
    called = ast.unparse(call.func)
    if called in RUN_TEXT or re.fullmatch(r"yaml\.(unsafe|full)_load(_all)?", called):
        yield called
    if called in {"yaml.load", "yaml.load_all"}:
        given = {ast.unparse(each) for each in (*call.args, *(keyword.value for keyword in call.keywords))}
        if not given & PLAIN_YAML:
            yield called
    if called in {"import_module", "importlib.import_module"}:
        yield "import_module"


def test_data_is_never_code() -> None:
    """No pickle, no eval, no class or module by a name that data has."""
    trees = {str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in MODULES}
    found = {(file, offence) for file, tree in trees.items() for offence in offences(tree)}
    assert found == {(file, "import_module") for file in IMPORTS_BY_NAME}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from marshal import loads",
        "eval(text)",
        "yaml.load(text, Loader)",
        "yaml.unsafe_load(x)",
    ],
)
def test_an_offence_is_seen(line: str) -> None:
    """Code that would let data run is found in every spelling."""
    assert list(offences(ast.parse(line)))


def test_scripts_load_no_code() -> None:
    """A script calls no function that makes code of a text."""
    loading = re.compile(r"\b(loadstring|load|loadfile|dofile|require|setfenv)\s*[('\"]")
    assert SCRIPTS
    assert [file.name for file in SCRIPTS if loading.search(file.read_text())] == []


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_forges_a_log_line(text: str) -> None:
    """As a message, a key, an error, a stack, the name of an extra and its value; as text and as JSON."""
    for formatter in (TextFormatter(), JsonFormatter()):
        written = io.StringIO()
        logger = logging.Logger("distq.test")  # noqa: LOG001 - of its own, apart from other loggers
        handler = logging.StreamHandler(written)
        handler.setFormatter(formatter)
        logger.addHandler(handler)
        try:
            raise ValueError(text)
        except ValueError:
            extra = {"key": text, text: text, "level": "info", "time": "1999", "logger": "other"}
            logger.exception("failed: %s", text, extra=extra, stack_info=True)
        first, *others = written.getvalue().removesuffix("\n").split("\n")
        assert all(line.startswith("  ") for line in others)
        assert all(line.isprintable() for line in (first, *others))
        if isinstance(formatter, JsonFormatter):
            assert not others
            line = json.loads(first)
            assert (line["level"], line["logger"], line["key"]) == ("error", "distq.test", text)
            assert line["time"] > "2"
