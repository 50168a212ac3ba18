"""A Controller describes, and refuses what cannot work before anything runs."""

from typing import Any

import pytest

from distq.controller.controller import Controller, purpose_of
from distq.controller.watches import Every, For, Owns, Watch, Watches
from distq.errors import ConfigError, InvalidQueueName
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request

FOO = "example.com/v1/Foo"


def reconcile(request: Request) -> None:
    """Do nothing."""


def two_arguments(request: Request, more: str) -> None:
    """Take too much."""


def test_nothing_is_contacted_before_it_runs() -> None:
    """Neither Redis nor a cluster has to be there to make a Controller."""
    controller = Controller("foos", reconcile, watches=[For(FOO), Owns("apps/v1/Deployment")])
    assert controller.name == "foos"
    assert controller.concurrency == 8


def test_a_queue_is_taken_as_it_is() -> None:
    """A Queue with its own settings stays the very same."""
    queue = Queue("foos", max_retries=3)
    assert Controller(queue, reconcile).queue is queue


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reconcile": two_arguments}, "bad reconcile: two_arguments: missing a required argument: 'more'"),
        ({"queue": 5}, "bad queue: int is none"),
        ({"concurrency": 0}, "bad concurrency: 0"),
        ({"concurrency": 1.5}, "bad concurrency: 1.5"),
        ({"concurrency": True}, "bad concurrency: True"),
        ({"fleet_concurrency": 0}, "bad fleet_concurrency: 0"),
        ({"fleet_concurrency_per_flow": 0}, "bad fleet_concurrency_per_flow: 0"),
        ({"reconciliation_timeout": 0}, "bad reconciliation_timeout: 0"),
        ({"reconciliation_timeout": float("nan")}, "bad reconciliation_timeout: nan"),
        ({"reconciliation_timeout": "5"}, "bad reconciliation_timeout: '5'"),
        ({"reconciliation_timeout": True}, "bad reconciliation_timeout: True"),
        ({"cache_sync_timeout": 0}, "bad cache_sync_timeout: 0"),
        ({"cache_sync_timeout": "5"}, "bad cache_sync_timeout: '5'"),
        ({"resync_period": float("nan")}, "bad resync_period: nan"),
        ({"resync_period": "5"}, "bad resync_period: '5'"),
        ({"resync_period": -1}, "bad resync_period: -1"),
        ({"shared": "yes"}, "bad shared: 'yes'"),
        ({"watches": ["apps/v1/Deployment"]}, "bad watches of foos: str is none"),
        ({"watches": For(FOO)}, "bad watches of foos: For is no list"),
        ({"watches": [For(FOO), For("v1/Pod")]}, "bad watches of foos: 2 times For"),
        ({"watches": [Owns("v1/Pod")]}, "bad watches of foos: Owns without For"),
    ],
)
def test_arguments_that_cannot_work_are_refused_with_their_remedy(
    arguments: dict[str, Any], message: str
) -> None:
    """The error is one line: what, cause, remedy."""
    with pytest.raises(ConfigError) as caught:
        Controller(**{"queue": "foos", "reconcile": reconcile, **arguments})
    assert str(caught.value).startswith(f"{caught.value.place}: {message}")
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_a_bad_queue_name_is_refused() -> None:
    """The name is checked where it is given, not at the first use."""
    with pytest.raises(InvalidQueueName):
        Controller("no spaces", reconcile)


def test_watches_without_for_and_several_others_are_fine() -> None:
    """A controller may be fed by mappings and timers alone."""
    watches: list[Watch] = [
        Watches("v1/Pod", lambda _: []),
        Watches("v1/Node", lambda _: []),
        Every(60.0, list),
    ]
    assert len(Controller("foos", reconcile, watches=watches).watches) == 3


def test_its_purpose_is_the_resource_that_for_names() -> None:
    """With all that it watches, to compare releases; without For, and if shared, it says nothing."""
    watches: list[Watch] = [
        For(FOO, namespaces=["a", "b"], label_selector="x=y"),
        Owns("v1/Pod"),
        Every(60.0, list),
    ]
    purpose = purpose_of(Controller("foos", reconcile, watches=watches), "distq-foos")
    assert purpose is not None
    assert (purpose.resource, purpose.lease) == (FOO, "distq-foos")
    assert purpose.watches == (f"For {FOO} x=y in a b", "Owns v1/Pod", "Every 60 s")
    for silent in (
        Controller("foos", reconcile),
        Controller("foos", reconcile, watches=[Every(60.0, list)]),
        Controller("foos", reconcile, watches=watches, shared=True),
    ):
        assert purpose_of(silent, "distq-foos") is None
