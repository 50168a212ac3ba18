"""Each bound is in ``distq/redisio/limits.py``, and a test goes beyond it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from distq.redisio import limits
from tests import ROOT

LIMITS = Path(limits.__file__)
NAMES = {name for name in vars(limits) if name.isupper()}

BOUND = re.compile(r"LIMIT|BYTES|MOST|LONGEST|CAPACITY|MEMORY|PAGE|LINES|AT_ONCE|COUNT|SIZE|DEPTH|MAX|WAIT")
"""What the name of a bound has in it."""

OWN = {
    "client/authorities.py": {"_MOST"},  # certificates
    "client/http_answer.py": {"LONGEST_LINE"},  # of a head, or between chunks
    "client/http_connection.py": {
        "_MOST_BYTES",
        "_MOST_HEADERS",
        "_MOST_HEADS",
    },  # of the head of an answer, and of a body that no memory holds
    "client/page_size.py": {"FIRST_PAGE"},  # where a list begins
    "client/raw.py": {"_READ_SIZE"},  # of a buffer
    "client/resources.py": {"_MOST_QUESTIONS"},  # requests that look for a resource which is not there
    "client/recorder.py": {"MOST_WAITING"},  # events of one object each
    "controller/endpoints.py": {"MOST_CONNECTIONS"},
    "controller/recorded_events.py": {"_FOUND_AT_MOST"},
    "controller/stream/failures.py": {"LONGEST"},  # letters of a text that people read
    "controller/stream/routing.py": {"LONGEST_IDENTITY"},  # bytes that a name may add to a key
    "controller/worker/loop_watch.py": {"_MOST_PLACES"},  # that are logged
    "informer/json_depth.py": {"MAX_DEPTH"},
    "informer/mutation_cache.py": {"CAPACITY"},  # an informer's of this process alone, as the next one
    "informer/registration.py": {"CAPACITY"},
    "informer/reflector.py": {"BUSY_LINES", "LISTED_AT_ONCE"},  # lines that are waited for
    "informer/shared_watch.py": {"AT_ONCE"},  # lines of a call, of those that are bounded
    "inspector/inspector.py": {"_ENTRIES_AT_MOST", "_LONGEST_MATCH"},  # of arguments
    "inspector/view.py": {"_MOST_FOUND"},  # of what people look at
    "redisio/conversation.py": {"_LONGEST_PIECE", "_PACKED_AT_ONCE"},  # of a buffer
    "redisio/queue_reads.py": {"_LONGEST_NUMBER"},  # digits
    "workqueue/dispositions.py": {"_LIMIT"},  # four turns
    "workqueue/gauges.py": {"PAGE"},
    "workqueue/memory/flow_bound.py": {"_AT_ONCE"},  # as in the scripts
    "workqueue/memory/items.py": {
        "_CRASHES_COUNT_FOR",
        "_ENTER_AT_ONCE",
        "_PROMOTED_AT_ONCE",
    },  # as in the scripts
    "workqueue/memory/memory_session.py": {"_MAX_CLOCK_STEP"},  # µs, as in the scripts
    "workqueue/memory/sessions.py": {"_TAKEN_BACK_AT_ONCE"},  # as in the scripts
    "workqueue/memory/state.py": {"_EMPTYING_AT_MOST"},  # as in the scripts
}
"""Numbers that look like bounds of a step and are none, or bound one part alone, by their files."""


def _covered() -> dict[str, set[str]]:
    """Return which tests go beyond which bounds, as their markers say."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "tests").rglob("test_*.py"):
        if "mark.bound(" not in (text := path.read_text()):
            continue
        for test in ast.walk(ast.parse(text)):
            if isinstance(test, ast.FunctionDef):
                for name in _bounds_of(test):
                    found[name].add(f"{path.stem}.{test.name}")
    return found


def _bounds_of(test: ast.FunctionDef) -> Iterator[str]:
    for decorator in test.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.bound":
            yield from (
                str(argument.value) for argument in decorator.args if isinstance(argument, ast.Constant)
            )


def _numbers_of(file: Path) -> set[str]:
    """Return the names of a module that mean whole numbers, and look like bounds; seconds are none."""
    names = set[str]()
    for line in ast.parse(file.read_text()).body:
        if isinstance(line, ast.Assign):
            names |= {name.id for name in ast.walk(line) if isinstance(name, ast.Name)}
    module = vars(import_module(".".join(file.relative_to(ROOT).with_suffix("").parts)))
    return {
        name
        for name in names
        if name.isupper() and BOUND.search(name) and type(module[name]) is int and name not in NAMES
    }


def test_a_test_goes_beyond_each_bound() -> None:
    """The marker ``bound`` says which; a bound that is new here has none."""
    covered = _covered()
    assert NAMES - covered.keys() == set(), "no test goes beyond these"
    assert covered.keys() - NAMES == set(), "no such bound"


def test_each_bound_has_a_text() -> None:
    """A text is below it."""
    body = ast.parse(LIMITS.read_text()).body
    for line, following in zip(body[1:], [*body[2:], None], strict=True):
        if isinstance(line, ast.Assign):
            assert isinstance(following, ast.Expr), ast.unparse(line)
    assert all(isinstance(vars(limits)[name], int) and vars(limits)[name] > 0 for name in NAMES)


@pytest.mark.parametrize("package", ["redisio", "workqueue", "informer", "controller", "client", "inspector"])
def test_no_bound_of_a_step_is_elsewhere(package: str) -> None:
    """A bound of a step or of a process's memory is named with all others; smaller bounds are known."""
    folder = ROOT / "distq"
    found = {
        str(path.relative_to(folder)): names
        for path in (folder / package).rglob("*.py")
        if path != LIMITS and path.name != "__main__.py" and (names := _numbers_of(path))
    }
    assert found == {file: names for file, names in OWN.items() if file.startswith(f"{package}/")}
