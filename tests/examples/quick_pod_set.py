"""The example as it is, but for its claims: those of a killed worker lapse soon."""

from distq import Controller, Queue
from examples import pod_set
from tests.examples.holding import hold_writes

hold_writes()

controller = pod_set.controller = Controller(
    Queue("pod-sets", claim_duration=3),
    pod_set.reconcile,
    watches=pod_set.controller.watches,
    failure_events=True,
)
