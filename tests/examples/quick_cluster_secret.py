"""The example as it is, but for its claims: those of a killed worker lapse soon."""

from distq import Controller, Queue
from examples import cluster_secret
from tests.examples.holding import hold_writes

hold_writes()

controller = cluster_secret.controller = Controller(
    Queue("cluster-secrets", claim_duration=3),
    cluster_secret.reconcile,
    watches=cluster_secret.controller.watches,
    failure_events=True,
)
