"""The limits in ``docs/reference/limits.md`` and on other pages are the code's."""

from distq.redisio import limits
from tests.docs.pages import PAGES, ROOT, table


def test_the_limits_of_a_step_are_those_of_the_code() -> None:
    """Each row that has a limit of the code has its number."""
    stated = dict(table("what", "at most"))
    assert stated["settlements of a turn, claims of a turn"] == f"{limits.TURN_LIMIT} each"
    assert stated["settlements other than successes of a turn"] == str(limits.COSTLY_LIMIT)
    assert stated["keys of an add; keys, known, gone and cached objects of a commit together"] == str(
        limits.BATCH_LIMIT
    )
    assert stated["bytes of the cached objects of a commit"] == f"{limits.CACHED_BYTES // 2**20} MiB"
    assert stated["an object that is cached"] == f"{limits.CACHED_LIMIT // 2**10} KiB"
    assert stated["values of an object for one index"].startswith(f"{limits.INDEX_VALUES};")
    assert stated["bytes of the index entries of a commit's cached objects"].startswith(
        f"{limits.TERMS_LIMIT // 2**10} KiB;"
    )
    page = f"{limits.PAGE_SIZE} objects, {limits.LIST_BYTES // 2**20} MiB"
    assert stated["a page of a list from the API server"] == page
    assert stated["cached objects that a leader reads together"] == str(limits.OLD_OBJECTS)
    ahead = f"{limits.READ_AHEAD_LINES}, {limits.READ_AHEAD_BYTES // 10**6} MB"
    assert stated["lines of a watch that wait to be handled"] == ahead
    assert stated["items of a requeue, delete or park"] == str(limits.REPAIR_LIMIT)
    assert stated["error texts"] == f"{limits.ERROR_BYTES} bytes"
    assert stated["tracebacks of failing and dead items"] == f"{limits.TRACEBACK_BYTES // 1024} KiB"


def test_internals_have_the_same_limits() -> None:
    """What the pages on a turn and a stream say of a step is what the code has."""
    texts = {page.name: page.prose for page in PAGES}
    assert (
        f"At most {limits.TURN_LIMIT} settlements and {limits.TURN_LIMIT} claims go in one turn, "
        f"{limits.COSTLY_LIMIT} of the settlements other than successes"
    ) in texts["docs/internals/turn.md"]
    assert (
        f"At most {limits.BATCH_LIMIT} of keys, known, gone, dead and cached objects go in one commit"
    ) in texts["docs/internals/stream.md"]


def test_all_that_can_be_measured_is_named() -> None:
    """Each benchmark that people run has its row, the one of the command line first."""
    commands = [row[0].strip("`") for row in table("command", "measures", "figures")]
    ours = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "@click.command" in path.read_text()}
    assert commands[0] == "distq bench"
    assert sorted(commands[1:]) == sorted(f"python -m benchmarks.{name}" for name in ours)
