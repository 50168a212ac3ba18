"""Real parts for a test or a terminal: an embedded Valkey and an emulated API server, gone at the end."""

import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from distq.client.client import Client
from distq.client.objects import Object, metadata, resource_text
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.manager import Manager
from distq.errors import ApiError, DistqError
from distq.inspector import Inspector
from distq.redisio.connection import Connection
from distq.testing.apiserver import EmulatedApiServer
from distq.testing.apiserver.manifests import Document, Manifest, read_manifest
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.guard import Guard
from distq.testing.idle import what_remains

_LOOK_EVERY = 0.1
_QUIET_LOOKS = 3
"""An event may be on its way between two looks; so many in a row must find nothing."""


class Sandbox:
    """A context with a Redis and a cluster of one's own.

    ``manifests`` are applied at the start: paths of YAML files, and what else ``apply`` takes. Within the
    context ``environment`` is part of the process's own, so that Clients and Queues made without arguments
    find the sandbox.
    """

    redis: Connection
    """Leads to its Valkey."""
    client: Client
    """Reaches its API server."""
    environment: dict[str, str]
    """``DISTQ_REDIS_URL`` and ``KUBECONFIG``, for processes that a test starts."""
    api_server: EmulatedApiServer
    valkey: EmbeddedValkey
    guard: Guard
    """Ends, also when this process is killed, Valkey and what is started with its environment, too."""

    def __init__(self, *, manifests: Sequence[Manifest] = ()) -> None:
        self._manifests = manifests
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for manifest in self._manifests:
            read_manifest(manifest)  # what is wrong with one is said before anything starts
        with ExitStack() as stack:
            self.guard = stack.enter_context(Guard("sandbox"))
            self.valkey = valkey = stack.enter_context(EmbeddedValkey(guard=self.guard))
            server = self.api_server = stack.enter_context(EmulatedApiServer())
            server.load(*self._manifests)
            kubeconfig = self.guard.folder / "kubeconfig"
            server.kubeconfig(kubeconfig)
            self.environment = {"DISTQ_REDIS_URL": valkey.url, "KUBECONFIG": str(kubeconfig)}
            stack.callback(_restore, {name: os.environ.get(name) for name in self.environment})
            os.environ.update(self.environment)
            self.redis = Connection(valkey.url)
            stack.callback(self.redis.close)
            self.client = Client(str(kubeconfig))
            # with the name of a controller's Clients it would remove what they have applied
            self._applying_client = Client(str(kubeconfig), field_manager="distq-sandbox")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def apply(self, *manifests: Manifest) -> list[Object]:
        """Make objects so, or create them, as ``kubectl apply`` does; return them as stored.

        A manifest is a path of a YAML file, YAML itself (a text of more than one line), or an object as a
        dict. What names no namespace goes to ``default``. Raises ConfigError, before anything is applied,
        where a manifest is none, and ApiError.
        """
        documents = [document for manifest in manifests for document in read_manifest(manifest)]
        return [self._apply(document) for document in documents]

    def _apply(self, document: Document) -> Object:
        content = document.content
        try:
            if self._applying_client.resolve(resource_text(content)).namespaced:
                content = {**content, "metadata": {"namespace": "default", **metadata(content)}}
            return self._applying_client.apply(content)
        except ApiError as error:
            error.add_note(f"applied from {document.place}")
            raise

    def run_until_idle(self, *controllers: Controller, timeout: float = 30.0) -> None:
        """Run informer and workers of the controllers in this process until nothing is left to do.

        Idle is: every watch has handed over what there is, and nothing is ready, dirty, processing, due,
        or waiting for a retry. What asked to come back later (``Result(requeue_after=...)``) and the
        parked do not count. Raises TimeoutError, which names what remained, after ``timeout`` seconds;
        and what the run itself raised.
        """
        settings = Settings(redis_url=self.environment["DISTQ_REDIS_URL"], lease_name="distq-sandbox")
        manager = Manager(controllers, redis=self.redis, client=self.client, settings=settings)
        failures: list[BaseException] = []
        runner = threading.Thread(target=_run, args=(manager, failures), name="distq-sandbox")
        before = {stream.epoch for stream in Inspector(self.redis).streams()}
        runner.start()
        try:
            self._wait_until_idle(controllers, before, runner, timeout)
        finally:
            manager.stop()
            runner.join()
        if failures:
            raise failures[0]

    def _wait_until_idle(
        self, controllers: Sequence[Controller], before: set[str], runner: threading.Thread, timeout: float
    ) -> None:
        inspector = Inspector(self.redis)
        deadline = time.monotonic() + timeout
        quiet_looks = 0
        while runner.is_alive() and quiet_looks < _QUIET_LOOKS:
            remains = [
                reason
                for controller in controllers
                for reason in what_remains(controller, inspector, self.client, before)
            ]
            quiet_looks = 0 if remains else quiet_looks + 1
            if time.monotonic() > deadline:
                raise TimeoutError(f"not idle after {timeout:g} s: {'; '.join(remains)}.")
            runner.join(_LOOK_EVERY)


def _run(manager: Manager, failures: list[BaseException]) -> None:
    try:
        manager.run()
    except (DistqError, SystemExit) as error:
        failures.append(error)


def _restore(environment: dict[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
