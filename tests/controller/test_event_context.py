"""What a stream that hands over objects lets others know of it."""

import threading

from distq.controller.cached import event_context
from distq.controller.cached.event_context import EventContext, Place

PODS, MAPS, NODES = (Place("foos", kind, None) for kind in ("pods", "maps", "nodes"))


def stream(place: Place) -> EventContext:
    """Return what a stream of a place is just handing over."""
    return EventContext(place, threading.Event(), None)


def test_two_streams_of_one_place_wait_at_the_same_time() -> None:
    """That of a term that ended, and of the next one: neither ends the wait of the other."""
    old, new, other = stream(PODS), stream(PODS), stream(MAPS)
    with new.waiting_for(MAPS):
        with old.waiting_for(MAPS):
            assert other.waits_for_itself(PODS)
        assert other.waits_for_itself(PODS)
        assert event_context.is_waiting(PODS)
    assert not other.waits_for_itself(PODS)
    assert not event_context.is_waiting(PODS)


def test_a_wait_leads_back_through_others() -> None:
    """Over any number of streams between, and only if the wait does lead back."""
    with stream(PODS).waiting_for(MAPS), stream(MAPS).waiting_for(NODES):
        assert stream(NODES).waits_for_itself(PODS)
        assert stream(PODS).waits_for_itself(PODS)
        assert not stream(PODS).waits_for_itself(NODES)
