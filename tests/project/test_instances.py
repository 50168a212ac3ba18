"""All objects of a kind that a process has."""

from distq.instances import Instances


class Thing:
    """What may be known and go."""


def test_instances_are_known_while_something_else_has_them() -> None:
    """Nothing lives longer because of it."""
    instances = Instances[Thing]()
    first, second = Thing(), Thing()
    instances.add(first)
    instances.add(second)
    instances.add(first)
    assert [*instances] == [first, second]
    del first
    assert [*instances] == [second]


def test_instances_that_come_and_go_disturb_no_reader() -> None:
    """A thread may open a queue or a Client while another one ends all of them."""
    instances = Instances[Thing]()
    first, second, third = Thing(), Thing(), Thing()
    instances.add(first)
    instances.add(second)
    read = iter(instances)
    assert next(read) is first
    instances.add(third)
    del second
    assert [*read] == []
