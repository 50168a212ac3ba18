"""Errors point: to the line of a Controller, and to the name that was probably meant."""

import re
from pathlib import Path

import pytest

from distq import Client, Controller, Every, For, Manager, Owns, Queue, Watches
from distq.config import Settings
from distq.errors import ConfigError
from distq.mistakes import did_you_mean
from distq.redisio.connection import Connection
from distq.testing import EmulatedApiServer
from distq.workqueue.memory.queue import MemoryQueue
from tests.cli.conftest import CommandLine

CONTROLLER = """
from distq import Controller, For

def make():
    return Controller("foos", print, watches=[For("{resource}", namespaces={namespaces})])

controller = make()
"""


def here(error: BaseException) -> str:
    """Return the place that a message begins with, without the folder."""
    place, colon, _ = str(error).partition(": ")
    assert colon
    return Path(place).name


@pytest.mark.first_contact(22)
@pytest.mark.parametrize(
    "arguments",
    [
        {"concurrency": 0},
        {"queue": "no name"},
        {"queue": 3},
        {"reconcile": None},
        {"watches": "v1/Pod"},
        {"watches": [Owns("v1/Pod")]},
        {"watches": [For("v1/Pod"), For("v1/Pod")]},
        {"failure_events": True},
    ],
)
def test_an_argument_that_cannot_work_has_the_line_of_its_controller(arguments: dict[str, object]) -> None:
    """Once, for refusals by each part of distq."""
    with pytest.raises(ConfigError) as caught:
        Controller(**{"queue": "foos", "reconcile": print, **arguments})  # type: ignore[arg-type]
    number = caught.tb.tb_lineno
    assert here(caught.value) == f"test_pointing.py:{number}"
    assert caught.value.place.endswith(f"test_pointing.py:{number}")
    assert str(caught.value).count("test_pointing.py") == 1


@pytest.mark.first_contact(22)
def test_a_refusal_of_a_manager_has_the_lines_of_its_controllers(
    redis: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of one queue, and one that no watch could feed; a file of the working directory by its name."""
    monkeypatch.chdir(Path(__file__).parent)
    one = Controller("foos", print)
    other = Controller("foos", print)
    with pytest.raises(ConfigError, match=r"^test_pointing\.py:\d+, test_pointing\.py:\d+: 2 controllers"):
        Manager([one, other], redis=redis)
    with pytest.raises(
        ConfigError, match=r"^test_pointing\.py:\d+: no lister of v1/Pod: foos watches nothing"
    ):
        one.lister("v1/Pod")
    in_memory = Controller(MemoryQueue("foos"), print, watches=[For("v1/Pod")])
    with pytest.raises(ConfigError, match=r"^test_pointing\.py:\d+: cannot watch for foos"):
        Manager([in_memory], redis=redis).run()


@pytest.mark.first_contact(22)
@pytest.mark.parametrize(
    ("resource", "namespaces", "message"),
    [
        (
            "v1/Node",
            ["default"],
            'foos.py:5: bad namespace "default": v1/Node is not namespaced. Leave it out.',
        ),
        (
            "example.com/v1/Foo",
            None,
            "foos.py:5: cannot watch example.com/v1/Foo: unknown to the API server. Apply its CRD first.",
        ),
        ("Deployment", None, 'foos.py:5: bad resource "Deployment": no version or kind. Give e.g. '),
    ],
)
def test_an_informer_that_cannot_watch_ends_with_the_line(
    distq: CommandLine, tmp_path: Path, resource: str, namespaces: list[str] | None, message: str
) -> None:
    """Known at the import, or only by the cluster."""
    distq.module("foos", CONTROLLER.format(resource=resource, namespaces=namespaces))
    with EmulatedApiServer() as server:
        done = distq("informer", "foos", "--kubeconfig", str(server.kubeconfig(tmp_path / "kubeconfig")))
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, last[: len(message) + 7]) == (2, f"distq: {message}")


@pytest.mark.first_contact(22)
def test_an_error_that_ends_the_import_of_a_target_has_its_line(distq: CommandLine) -> None:
    """Of a queue or a limiter, too, and in another module of the program."""
    distq.module("queues", "from distq import Queue\n\nfoos = Queue('foos', max_retries=-1)\n")
    distq.module("foos", "import queues\n")
    done = distq("worker", "foos")
    assert (done.returncode, done.stderr) == (
        2,
        "distq: queues.py:3: bad max_retries -1. Give 0 or more, or None for ever.\n",
    )


@pytest.mark.first_contact(23)
def test_a_target_that_is_nearly_one_is_suggested(distq: CommandLine) -> None:
    """A module, a Controller or a Manager in it, and a dot in place of the colon."""
    source = "from distq import Controller, Manager\n\nbackups = Controller('foos', print)\n"
    source += "manager = Manager([backups])\n"
    distq.module("foos", source)
    distq.module("mine.topics", source)
    for target, ending in {
        "fooos": 'Did you mean "foos"?',
        "mine.topic": 'Did you mean "mine.topics"?',
        "foos:backup": 'foos has no "backup". Did you mean "foos:backups"?',
        "foos:manger": 'Did you mean "foos:manager"?',
        "foos.backups": 'Did you mean "foos:backups"?',
        "quite_another": "Run distq in the folder of quite_another.py.",
    }.items():
        done = distq("worker", target)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert done.stderr.endswith(f"{ending}\n"), done.stderr


@pytest.mark.first_contact(23)
@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(("worker", "foos", "--concurency", "4"), "--concurrency"), (("queue",), "queues")],
)
def test_an_option_or_a_command_that_is_nearly_one_is_suggested(
    distq: CommandLine, arguments: tuple[str, ...], meant: str
) -> None:
    """By click, which knows them all."""
    done = distq(*arguments)
    assert done.returncode == 2
    assert re.search(f"Did you mean .*'?{meant}", done.stderr), done.stderr


@pytest.mark.first_contact(23)
@pytest.mark.parametrize(
    ("make", "name", "meant"),
    [
        (lambda **named: Controller("foos", print, **named), "concurency", "concurrency"),
        (lambda **named: Manager([], **named), "metric", "metrics"),
        (lambda **named: For("v1/Pod", **named), "namespace", "namespaces"),
        (lambda **named: Owns("v1/Pod", **named), "controller_only", None),
        (lambda **named: Watches("v1/Pod", list, **named), "predicate", "predicates"),
        (lambda **named: Every(5, list, **named), "priorty", "priority"),
        (Client, "kube_config", "kubeconfig"),
        (lambda **named: Queue("foos", **named), "max_retry", "max_retries"),
        (lambda **named: MemoryQueue("foos", **named), "claim_durations", "claim_duration"),
        (Settings, "redis", "redis_url"),
    ],
)
def test_an_argument_that_is_nearly_one_is_suggested(make: object, name: str, meant: str | None) -> None:
    """As Python 3.13 does by itself."""
    with pytest.raises(TypeError) as caught:
        make(**{name: 1})  # type: ignore[operator]
    message = str(caught.value)
    assert f"got an unexpected keyword argument {name!r}." in message
    if meant:
        assert message.endswith(f'Did you mean "{meant}"?')


@pytest.mark.first_contact(23)
def test_an_option_of_the_queue_on_a_controller_is_sent_to_the_queue() -> None:
    """And an option of controller-runtime becomes distq's."""
    for name in ("max_retries", "rate_limiter", "revive_dead_after"):
        with pytest.raises(TypeError) as caught:
            Controller("foos", print, **{name: None})  # type: ignore[arg-type]  # what is tested
        assert str(caught.value).endswith(f'of the queue: Controller(Queue("foos", {name}=...), ...).')
        Controller(Queue("foos", **{name: None}), print)  # type: ignore[arg-type]  # any of them
    with pytest.raises(TypeError, match='Did you mean "concurrency"'):
        Controller("foos", print, max_concurrent_reconciles=1)  # type: ignore[call-arg]  # what is tested
    with pytest.raises(TypeError, match=r"of the Manager: Manager\(\[controller\], client=...\)"):
        Controller("foos", print, client=None)  # type: ignore[call-arg]  # what is tested


def test_a_type_error_of_another_cause_is_left_as_it_is() -> None:
    """A missing argument is not a mistyped one."""
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'reconcile'"):
        Controller("foos")  # type: ignore[call-arg]


@pytest.mark.first_contact(23)
@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("DISTQ_REDIS_ULR", "DISTQ_REDIS_URL"),
        ("DISTQ_CONCURENCY", "DISTQ_CONCURRENCY"),
        ("DISTQ_LOGLEVEL", "DISTQ_LOG_LEVEL"),
        ("DISTQ_HTTP_ADRESS", "DISTQ_HTTP_ADDRESS"),
    ],
)
def test_a_variable_that_is_nearly_a_setting_is_refused(variable: str, meant: str) -> None:
    """It would be ignored, and the process would run with another setting. The value may be a secret."""
    with pytest.raises(ConfigError) as caught:
        Settings.from_env({variable: "s3cr3t"})
    assert str(caught.value) == f'unknown setting {variable}. Did you mean "{meant}"?'


@pytest.mark.parametrize("service", ["distq", "distq-redis", "distq-http", "distq-dashboard", "distq-prefix"])
def test_the_variables_of_kubernetes_are_left_alone(service: str) -> None:
    """Each pod has some for each Service of its namespace (kubelet, enableServiceLinks)."""
    name = service.upper().replace("-", "_")
    links = (
        "PORT_6379_TCP",
        "PORT_6379_TCP_ADDR",
        "PORT_6379_TCP_PORT",
        "PORT_6379_TCP_PROTO",
        "SERVICE_PORT_URL",
    )
    for link in ("PORT", "SERVICE_HOST", "SERVICE_PORT", *links):
        assert Settings.from_env({f"{name}_{link}": "tcp://10.0.0.1:6379"}) == Settings()


@pytest.mark.parametrize("variable", ["DISTQ_REDIS_USER", "DISTQ_REDIS_URL_1", "DISTQ_REDIS_PASSWORD_OLD"])
def test_a_setting_with_more_or_fewer_letters_at_its_end_is_left_alone(variable: str) -> None:
    """Manifests keep the parts of a URL, and passwords that rotate, under such names."""
    assert Settings.from_env({variable: "s3cr3t"}) == Settings()


def test_case_is_no_difference_and_a_name_of_its_own_has_no_suggestion() -> None:
    """The closest one is named as it is written."""
    assert did_you_mean("FOOS", ["foos", "bars"]) == 'Did you mean "foos"?'
    assert did_you_mean("quite", ["foos", "bars"], "Give one.") == "Give one."
    assert did_you_mean("foos", []) == ""
