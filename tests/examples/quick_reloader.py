"""The controller of Deployments as it is, but for its claims: those of a killed worker lapse soon."""

from distq import Controller, Queue
from examples.reloader import Reloader
from tests.examples.holding import hold_writes

hold_writes()

_reloader = Reloader("Deployment")
controller = _reloader.controller = Controller(
    Queue("reload-deployments", claim_duration=3),
    _reloader.reconcile,
    watches=_reloader.controller.watches,
    failure_events=True,
)
