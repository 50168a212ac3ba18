"""From TARGET to Controllers: the working directory first, every Controller at the top level."""

from distq.redisio.connection import Connection
from distq.workqueue.queue import Queue
from tests.cli.conftest import CommandLine

SOURCE = """
from pathlib import Path
from distq import Controller

def reconcile(request):
    with Path("done").open("a") as done:
        print("{name}", request.key, file=done, flush=True)
    import os, signal
    os.kill(os.getpid(), signal.SIGTERM)

{name} = Controller("{name}", reconcile)
"""


def _done(distq: CommandLine) -> list[str]:
    return sorted((distq.folder / "done").read_text().splitlines())


def test_own_and_imported_controllers_run(distq: CommandLine, redis: Connection) -> None:
    """A module that imports others' controllers runs them, too; SIGTERM ends it with 0."""
    distq.module("thumbs", SOURCE.format(name="thumbs"))
    distq.module("all_of_them", "from thumbs import thumbs as small\nfrom thumbs import thumbs\n")
    Queue("thumbs", redis).add("cat")
    done = distq("worker", "all_of_them")
    assert done.returncode == 0, done.stderr
    assert _done(distq) == ["thumbs cat"]


def test_a_name_picks_one(distq: CommandLine, redis: Connection) -> None:
    """``module:name`` leaves the others alone; modules may be in packages."""
    two = SOURCE.format(name="one") + SOURCE.format(name="two")
    distq.module("mine.pair", two)
    Queue("one", redis).add("a")
    Queue("two", redis).add("b")
    done = distq("worker", "mine.pair:two")
    assert done.returncode == 0, done.stderr
    assert _done(distq) == ["two b"]


def test_the_working_directory_wins(distq: CommandLine, redis: Connection) -> None:
    """A module of the user's hides an installed one of the same name, as with ``python -m``."""
    distq.module("yaml", SOURCE.format(name="thumbs"))
    Queue("thumbs", redis).add("cat")
    assert distq("worker", "yaml").returncode == 0
    assert _done(distq) == ["thumbs cat"]


def test_wrong_names_are_reported(distq: CommandLine) -> None:
    """Each wrong target has its one line."""
    distq.module("foos", "x = 1\n")
    for target, message in {
        "foos:y": 'nothing to run: foos has no "y". Name a Controller, or a Manager.',
        "foos:x": "nothing to run: x in foos is an int. Name a Controller, or a Manager.",
        "foos.py": 'bad target "foos.py": it is a file. Name the module: foos.',
        "a b": 'bad target "a b": it is no module name. Use module or module:name.',
        "foos.bar": f'no module "foos.bar": not in {distq.folder} nor on sys.path. '
        "Run distq in the folder of foos/bar.py.",
    }.items():
        done = distq("worker", target)
        assert (done.returncode, done.stderr) == (2, f"distq: {message}\n")


def test_our_own_errors_speak_for_themselves(distq: CommandLine) -> None:
    """An error of distq during the import of the module is one line, as everywhere."""
    distq.module("foos", "from distq import Queue\nqueue = Queue('a b')\n")
    done = distq("worker", "foos")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("distq: foos.py:2: bad queue name")


def test_a_bug_in_the_module_shows_its_traceback(distq: CommandLine) -> None:
    """The author needs the line, not our frames; a missing import of theirs is their bug as well."""
    distq.module("broken", "import json\n\njson.loads('{')\n")
    distq.module("incomplete", "import not_installed\n")
    for name, error in (("broken", "JSONDecodeError"), ("incomplete", "ModuleNotFoundError")):
        done = distq("worker", name)
        assert done.returncode == 2
        assert f'{name}.py", line' in done.stderr
        assert "importlib" not in done.stderr
        assert "distq/cli" not in done.stderr
        last = done.stderr.splitlines()[-1]
        assert last == f"distq: cannot import {name}: {error} (above). Fix the module."


MANAGER = """
import pathlib
from distq import Controller, Manager
from distq.config import Settings

def note(text):
    with open("done.txt", "a") as file:
        print(text, file=file)

def reconcile(request):
    note(f"{request.key} of {manager.is_leader()}")
    manager.stop()

first = Controller("first", reconcile)
second = Controller("second", reconcile)
"""


def test_the_manager_of_a_module_is_run_with_all_its_controllers(
    distq: CommandLine, redis: Connection
) -> None:
    """With its hooks and runnables, on the Redis of the command line; Controllers beside it run in it."""
    distq.module(
        "foos",
        MANAGER + "manager = Manager([first], on_start=lambda: note('start'), on_stop=lambda: note('stop'))\n"
        "manager.add(lambda stop: note('runnable'), need_leader_election=False)\n",
    )
    for target, queue in {"foos": "second", "foos:manager": "first"}.items():
        (distq.folder / "done.txt").unlink(missing_ok=True)
        Queue(queue, redis).add("a")
        done = distq("worker", target)
        assert done.returncode == 0, (target, done.stderr)
        assert ("second" in done.stderr) is (target == "foos")
        lines = (distq.folder / "done.txt").read_text().splitlines()
        assert (lines[0], lines[-1]) == ("start", "stop")
        assert sorted(lines[1:-1]) == ["a of False", "runnable"]


def test_managers_that_a_command_cannot_run_are_reported(distq: CommandLine) -> None:
    """Of two it runs none, and it does not leave out what its line or its variables say."""
    distq.module("pair", MANAGER + "one = Manager([first])\ntwo = Manager([second])\n")
    done = distq("worker", "pair")
    assert (done.returncode, done.stderr) == (
        2,
        "distq: pair has 2 Managers. Name one: pair:one or pair:two.\n",
    )
    distq.module("own", MANAGER + "manager = Manager([first], settings=Settings(concurrency=2))\n")
    done = distq("worker", "own")
    assert done.returncode == 2
    assert "this Manager has settings of its own. Leave them out, or run the program itself." in done.stderr
