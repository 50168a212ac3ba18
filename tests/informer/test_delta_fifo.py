"""The queue between a Reflector and a cache (client-go tools/cache DeltaFIFO)."""

import threading
from collections.abc import Sequence

import pytest

from distq.informer.delta_fifo import Delta, DeltaFIFO, RealFIFO
from distq.informer.indexer import Indexer
from tests.informer.pods import pod, stored
from tests.support.eventually import eventually


@pytest.fixture
def known() -> Indexer:
    """Give what the consumer knows: nothing at first."""
    return Indexer()


@pytest.fixture
def fifo(known: Indexer) -> DeltaFIFO:
    """Give an empty queue."""
    return DeltaFIFO(known)


def _pop(fifo: DeltaFIFO) -> str:
    """Pop the deltas of one object, as text."""
    popped: list[str] = []

    def process(deltas: Sequence[Delta], in_initial_list: bool) -> None:
        names = [
            f"{each.type}{'?' if each.final_state_unknown else ''} {each.object.version}" for each in deltas
        ]
        popped.append(f"{deltas[0].object.key.partition('/')[2]}: {', '.join(names)}")

    assert len(fifo), "nothing to pop"
    fifo.pop(process)
    return popped[0]


def _first(fifo: DeltaFIFO) -> bool:
    """Pop an object and return whether it counts to the first list."""
    initial: list[bool] = []
    fifo.pop(lambda _, in_initial_list: initial.append(in_initial_list))
    return initial[0]


@pytest.mark.conformance("DF-01", "DF-02", "DF-15")
def test_all_deltas_of_an_object_come_at_once_at_the_place_of_the_first(fifo: DeltaFIFO) -> None:
    """Later news of an object does not move it to the end."""
    for name, version in [("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)]:
        fifo.add(stored(name, version)) if version in {10, 1, 30} else fifo.update(stored(name, version))
    fifo.delete(stored("bar", 2))
    assert _pop(fifo) == "foo: Added 10, Updated 11, Updated 13"
    assert _pop(fifo) == "bar: Added 1, Deleted 2"
    assert _pop(fifo) == "zab: Added 30"
    assert len(fifo) == 0


@pytest.mark.conformance("DF-03")
def test_two_deletions_are_one_and_the_state_that_was_seen_wins(fifo: DeltaFIFO, known: Indexer) -> None:
    """A deletion that was only inferred has an older state than one that was delivered."""
    known.add(pod("foo", 10))
    fifo.replace([])
    fifo.delete(stored("foo", 12))
    assert _pop(fifo) == "foo: Deleted 12"
    fifo.delete(stored("foo", 13))
    fifo.delete(stored("foo", 14))
    assert _pop(fifo) == "foo: Deleted 13"


@pytest.mark.conformance("DF-04")
def test_a_deletion_of_an_unknown_object_is_ignored(fifo: DeltaFIFO, known: Indexer) -> None:
    """An object that neither the queue nor the consumer has cannot be deleted."""
    fifo.delete(stored("gone", 5))
    assert len(fifo) == 0
    known.add(pod("there", 1))
    fifo.delete(stored("there", 6))
    assert _pop(fifo) == "there: Deleted 6"


@pytest.mark.conformance("DF-05", "DF-06")
def test_a_list_deletes_objects_that_are_known_or_queued_and_not_in_it(
    fifo: DeltaFIFO, known: Indexer
) -> None:
    """Each with its newest state, after the objects of the list, and none twice."""
    for name in ("kept", "vanished", "deleted"):
        known.add(pod(name, 1))
    fifo.add(stored("queued", 7))
    fifo.update(stored("vanished", 8))
    fifo.delete(stored("deleted", 9))
    fifo.replace([stored("kept", 5)])
    fifo.replace([stored("kept", 5)])
    popped = [_pop(fifo) for _ in range(len(fifo))]
    assert popped == [
        "queued: Added 7, Deleted? 7",
        "vanished: Updated 8, Deleted? 8",
        "deleted: Deleted 9",
        "kept: Replaced 5, Replaced 5",
    ]


@pytest.mark.conformance("DF-05")
def test_a_list_deletes_objects_that_only_the_consumer_knows(fifo: DeltaFIFO, known: Indexer) -> None:
    """After a process was away, the queue is empty and the cache is not."""
    known.add(pod("vanished", 3))
    fifo.replace([stored("new", 5)])
    assert [_pop(fifo), _pop(fifo)] == ["new: Replaced 5", "vanished: Deleted? 3"]


@pytest.mark.conformance("DF-07")
def test_a_resync_hands_over_again_the_objects_without_news(fifo: DeltaFIFO, known: Indexer) -> None:
    """Old state must not come after new."""
    known.add(pod("quiet", 1))
    known.add(pod("busy", 2))
    fifo.update(stored("busy", 3))
    fifo.resync()
    assert [_pop(fifo), _pop(fifo)] == ["busy: Updated 3", "quiet: Sync 1"]
    assert len(fifo) == 0


@pytest.mark.conformance("DF-08")
def test_synced_means_that_the_first_list_was_processed(fifo: DeltaFIFO, known: Indexer) -> None:
    """Objects that vanished count to it, and later ones do not."""
    known.add(pod("vanished", 1))
    assert not fifo.has_synced()
    fifo.replace([stored("a", 2), stored("b", 3)])
    assert [_first(fifo), _first(fifo)] == [True, True]
    assert not fifo.has_synced()
    assert _first(fifo) is True
    assert fifo.has_synced()
    fifo.add(stored("later", 4))
    assert _first(fifo) is False
    assert fifo.has_synced()


def test_a_list_with_an_object_twice_is_whole_once_it_was_processed(fifo: DeltaFIFO) -> None:
    """Both come at once, and count as one."""
    fifo.replace([stored("a", 1), stored("a", 2)])
    assert _pop(fifo) == "a: Replaced 1, Replaced 2"
    assert fifo.has_synced()


@pytest.mark.conformance("DF-08")
@pytest.mark.parametrize("first", ["an empty list", "an event"])
def test_nothing_to_process_first_is_synced(fifo: DeltaFIFO, first: str) -> None:
    """An empty list has been processed as it comes; an event instead of a list promises none."""
    assert not fifo.has_synced()
    if first == "an event":
        fifo.add(stored("a", 1))
    else:
        fifo.replace([])
    assert fifo.has_synced()


@pytest.fixture
def in_order(known: Indexer) -> RealFIFO:
    """Give an empty queue that keeps the order of all deltas."""
    return RealFIFO(known)


@pytest.mark.conformance("DF-02", "DF-03", "DF-15")
def test_in_order_each_delta_comes_when_it_came(in_order: RealFIFO) -> None:
    """Nothing jumps the line, nothing is left out."""
    for name, version in [("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)]:
        in_order.add(stored(name, version)) if version in {10, 1, 30} else in_order.update(
            stored(name, version)
        )
    in_order.delete(stored("bar", 2))
    in_order.delete(stored("bar", 3))
    popped = [_pop(in_order) for _ in range(len(in_order))]
    assert popped == [
        "foo: Added 10",
        "bar: Added 1",
        "foo: Updated 11",
        "foo: Updated 13",
        "zab: Added 30",
        "bar: Deleted 2",
        "bar: Deleted 3",
    ]


@pytest.mark.conformance("DF-04", "DF-05", "DF-06")
def test_in_order_a_list_deletes_first(in_order: RealFIFO, known: Indexer) -> None:
    """A new object may have taken the place of one that vanished; a deletion is not delivered twice."""
    for name in ("kept", "vanished", "deleted"):
        known.add(pod(name, 1))
    in_order.update(stored("vanished", 8))
    in_order.delete(stored("deleted", 9))
    in_order.replace([stored("kept", 5)])
    in_order.replace([stored("kept", 5)])
    in_order.delete(stored("stranger", 11))
    popped = [_pop(in_order) for _ in range(len(in_order))]
    assert popped == [
        "vanished: Updated 8",
        "deleted: Deleted 9",
        "vanished: Deleted? 8",
        "kept: Replaced 5",
        "kept: Replaced 5",
        "stranger: Deleted 11",
    ]


@pytest.mark.conformance("DF-07", "DF-08")
def test_in_order_a_list_is_whole_when_each_of_its_deltas_was_processed(
    in_order: RealFIFO, known: Indexer
) -> None:
    """Also an object that is listed twice; a resync skips what has deltas waiting."""
    known.add(pod("a", 1))
    in_order.replace([stored("a", 2), stored("a", 3)])
    in_order.resync()
    assert [_first(in_order), in_order.has_synced()] == [True, False]
    assert [_first(in_order), in_order.has_synced()] == [True, True]
    in_order.resync()
    assert _pop(in_order) == "a: Sync 1"


@pytest.mark.conformance("DF-09")
def test_pop_waits_and_ends_when_the_queue_is_closed(fifo: DeltaFIFO) -> None:
    """Waiting threads return; queued objects are handed out first."""
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda: answers.append(fifo.pop(lambda *_: None)), daemon=True)
        for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    fifo.add(stored("one", 1))
    eventually(lambda: answers == [True])
    fifo.close()
    for thread in threads:
        thread.join(10)
    assert sorted(answers) == [False] * 9 + [True]
    fifo.add(stored("two", 1))
    assert fifo.pop(lambda *_: None)
    assert not fifo.pop(lambda *_: None)


@pytest.mark.conformance("DF-09")
def test_an_exception_of_processing_is_raised_and_the_queue_goes_on(fifo: DeltaFIFO) -> None:
    """One bad object does not stop the others, nor keep the first list from being whole."""
    fifo.replace([stored("bad", 1), stored("good", 2)])

    def fail(*_: object) -> None:
        raise RuntimeError("bad")

    with pytest.raises(RuntimeError):
        fifo.pop(fail)
    assert _pop(fifo) == "good: Replaced 2"
    assert fifo.has_synced()
