"""The example as it is, but for its claims: those of a killed worker lapse soon."""

from distq import Controller, Queue
from examples import endpoint_slices
from tests.examples.holding import hold_writes

hold_writes()

controller = endpoint_slices.controller = Controller(
    Queue("endpoint-slices", claim_duration=3),
    endpoint_slices.reconcile,
    watches=endpoint_slices.controller.watches,
    failure_events=True,
)
