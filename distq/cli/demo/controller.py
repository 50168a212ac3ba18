"""The controller that the demo's informers and workers run: it keeps a journal of its reconciles."""

import time

from distq.cli.demo.journal import Journal
from distq.client.client import Client
from distq.controller.controller import Controller
from distq.controller.predicate import generation_changed
from distq.controller.watches import For
from distq.workqueue.queue import Queue
from distq.workqueue.request import Request

RESOURCE = "demo.distq.example.com/v1/Foo"
QUEUE = "demo"
CLAIM_DURATION = 3.0

client = Client()
journal = Journal()


def reconcile(request: Request) -> None:
    """Bring a Foo's status up to its spec, in the time and with the failures that the spec asks for."""
    with journal.entry(request.key) as entry:
        foo = client.get(RESOURCE, request.key)
        if foo is None:
            entry.gone = True
            return
        time.sleep(foo["spec"]["milliseconds"] / 1000)
        if request.attempt <= foo["spec"]["failures"]:
            raise RuntimeError(f"failure {request.attempt} of {foo['spec']['failures']}, as the spec asks")
        # so the API server alone can be asked whether all were reconciled to their last version
        status = {"observedGeneration": foo["metadata"]["generation"]}
        client.patch(RESOURCE, request.key, {"status": status}, status=True)


controller = Controller(
    Queue(QUEUE, claim_duration=CLAIM_DURATION),
    reconcile,
    watches=[For(RESOURCE, predicates=[generation_changed])],
)
