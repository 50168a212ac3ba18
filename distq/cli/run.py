"""Commands that run a TARGET's controllers: run, informer, worker."""

import logging
import sys
from typing import TYPE_CHECKING, Any

import click

from distq.cli.options import HTTP, LEASE, WORK, command, of_target, with_kubeconfig, with_settings
from distq.cli.output import note
from distq.config import Settings
from distq.errors import ConfigError

if TYPE_CHECKING:
    from distq.controller.controller import Controller
    from distq.metrics import MetricsProvider
    from distq.spans import SpanProvider

_logger = logging.getLogger("distq")


@command("distq run foos --concurrency 4")
@click.argument("target")
@with_kubeconfig
@click.option(
    "--reload",
    is_flag=True,
    help="Start anew whenever a .py file below the working directory changes. For development only.",
)
@with_settings(LEASE, WORK, HTTP)
def run(*, reload: bool, **parameters: Any) -> None:
    """Run informer and workers of TARGET (module or module:name) in this process."""
    if reload:
        from distq.cli.reload import run_with_reload

        click.get_current_context().exit(run_with_reload(parameters["target"]))
    _run(**parameters, informer=True, workers=True)


@command("distq informer foos --http-address :8080")
@click.argument("target")
@with_kubeconfig
@with_settings(LEASE, HTTP)
def informer(**parameters: Any) -> None:
    """Compete for the lease; the leader watches the resources of TARGET's controllers."""
    _run(**parameters, informer=True, workers=False)


@command("distq worker foos --fleet-concurrency 20")
@click.argument("target")
@with_kubeconfig
@with_settings(WORK, HTTP)
def worker(**parameters: Any) -> None:
    """Reconcile the items of TARGET's queues; run any number of workers."""
    _run(**parameters, informer=False, workers=True)


def _run(*, settings: Settings, as_json: bool, target: str, informer: bool, workers: bool) -> None:
    from distq.cli.target import load_program
    from distq.controller.manager import Manager
    from distq.redisio.connection import Connection

    program = load_program(target)
    settings = of_target(settings, target)
    if not as_json and settings.log_format == "text":
        for controller in program.controllers:
            note(_describe(controller, settings, workers=workers))
    metrics, spans = _metrics(settings), _spans()
    if program.manager is None:
        redis = Connection(settings=settings)
        manager = Manager(program.controllers, redis=redis, settings=settings, metrics=metrics, spans=spans)
    else:
        manager = program.manager
        manager.use_defaults(settings, metrics=metrics, spans=spans)
    manager.run(informer=informer, workers=workers)


def _metrics(settings: Settings) -> "MetricsProvider | None":
    """Return a metrics provider where there is an HTTP address; without the extra only probes are served."""
    if settings.http_address is None:
        return None
    try:
        from distq.prometheus import PrometheusMetrics
    except ConfigError as error:
        _logger.warning("no /metrics at %s: %s", settings.http_address, error)
        return None
    from distq.cli import logs

    metrics = PrometheusMetrics()
    logs.count_dropped(metrics)
    return metrics


def _spans() -> "SpanProvider | None":
    """Return a span provider where the TARGET, or its launcher, set a tracer provider of OpenTelemetry."""
    # a program that sets one has imported it; an import is slow
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    from distq.opentelemetry import OpenTelemetrySpans

    return OpenTelemetrySpans()


def _describe(controller: "Controller", settings: Settings, *, workers: bool) -> str:
    resources = ", ".join(getattr(watch, "resource", "a timer") for watch in controller.watches)
    count = len(controller.watches)
    watches = f"{count} {'watch' if count == 1 else 'watches'}: {resources}" if count else "no watches"
    at_a_time = f"   {settings.concurrency or controller.concurrency} at a time" if workers else ""
    fleet = settings.fleet_concurrency or controller.fleet_concurrency
    at_a_time += f", {fleet} in all processes" if workers and fleet else ""
    per_flow = settings.fleet_concurrency_per_flow or controller.fleet_concurrency_per_flow
    at_a_time += f", {per_flow} of a namespace in all processes" if workers and per_flow else ""
    return f"{controller.name:<8} {watches}   queue {controller.queue.name}{at_a_time}"
