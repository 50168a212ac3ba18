"""Real parts for a test or a terminal: an embedded Valkey and an emulated API server, gone at the end."""

import math
import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Literal, Self

from distq.client import recorder
from distq.client.client import Client
from distq.client.objects import Object, metadata, resource_text
from distq.config import Settings
from distq.controller.controller import Controller
from distq.controller.hooks import Hook
from distq.errors import ApiError, ConfigError, NotFound
from distq.inspector import Inspector
from distq.redisio.connection import Connection, shared_connection
from distq.seconds import Duration, in_seconds
from distq.testing.apiserver import EmulatedApiServer
from distq.testing.apiserver.manifests import Document, Manifest, read_manifest
from distq.testing.embedded_valkey import EmbeddedValkey
from distq.testing.envtest import find_assets
from distq.testing.guard import Guard
from distq.testing.idle import ObservedManager, Run, failed_object, what_remains
from distq.testing.kind import Kind
from distq.testing.kube_api_server import KubeApiServer

GRACE_PERIOD = 10.0
"""Seconds that reconciles get where a run ends before they do."""

_LEASE_DURATION, _RENEW_DEADLINE = 120.0, 100.0
"""Seconds, so many that no slow machine loses the lease: no other process competes for it."""

_FLUSH_TIME = 10.0
"""Seconds that events get to be sent, where a test then looks for them."""

_LOOK_EVERY = 0.05
_SERVED_WITHIN = 30.0
_BOOKMARK_PERIOD = 0.1
"""Seconds between bookmarks, which show each run that its watches missed nothing since the one before."""
_QUIET_LOOKS = 3
"""An event may be on its way between two looks; so many in a row must find nothing."""


class Sandbox:
    """A context with a Redis and a cluster of one's own.

    ``manifests`` are applied at the start: paths of YAML files, and what else ``apply`` takes. Within the
    context ``environment`` is part of the process's own, so that Clients and Queues made without arguments
    find the sandbox.

    ``kinds`` are more than the server has, without a schema: names such as "cert-manager.io/v1/Certificate",
    or a Kind where the plural or the scope is another. A kind that it has stays as it is.

    ``server`` is "emulated", or "kube-apiserver" for a real one with its etcd: their programs are found by
    ``KUBEBUILDER_ASSETS``, as envtest does, or where ``python -m distq.testing.envtest`` built them. It takes
    10 s to start, and no controllers run in it, not even the garbage collector. Raises ConfigError where they
    are not found or do not start.
    """

    redis: Connection
    """Leads to its Valkey."""
    client: Client
    """Reaches its API server."""
    environment: dict[str, str]
    """``DISTQ_REDIS_URL`` and ``KUBECONFIG``, for processes that a test starts."""
    api_server: EmulatedApiServer | KubeApiServer
    valkey: EmbeddedValkey
    guard: Guard
    """Ends, also when this process is killed, Valkey and what is started with its environment, too."""

    def __init__(
        self,
        *,
        manifests: Sequence[Manifest] = (),
        kinds: Sequence[Kind | str] = (),
        server: Literal["emulated", "kube-apiserver"] = "emulated",
    ) -> None:
        if server not in {"emulated", "kube-apiserver"}:
            raise ConfigError(f'bad server: {server!r}. Use "emulated" or "kube-apiserver".')
        self._manifests = manifests
        self._kinds = [Kind(each) if isinstance(each, str) else each for each in kinds]
        self._server = server
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for manifest in self._manifests:
            read_manifest(manifest)  # what is wrong with one is said before anything starts
        with ExitStack() as stack:
            self.guard = stack.enter_context(Guard("sandbox"))
            self.valkey = valkey = stack.enter_context(EmbeddedValkey(guard=self.guard))
            kubeconfig = self._start_api_server(stack)
            self.environment = {"DISTQ_REDIS_URL": valkey.url, "KUBECONFIG": str(kubeconfig)}
            stack.callback(_restore, {name: os.environ.get(name) for name in self.environment})
            os.environ.update(self.environment)
            shared_connection().close()  # it may have been led elsewhere, by the sandbox before this one, say
            self.redis = Connection(valkey.url)
            stack.callback(self.redis.close)
            stack.callback(_end_events)
            self.client = Client(str(kubeconfig))
            # with the name of a controller's Clients it would remove what they have applied
            self._applying_client = Client(str(kubeconfig), field_manager="distq-sandbox")
            if self._server == "kube-apiserver":
                self._define_kinds()
                self.apply(*self._manifests)
            self._stack = stack.pop_all()
        return self

    def _start_api_server(self, stack: ExitStack) -> Path:
        """Start the server of this sandbox, and return the kubeconfig that leads to it."""
        folder = self.guard.folder
        if self._server == "kube-apiserver":
            real = KubeApiServer(find_assets(), folder, environment=self.guard.environment)
            self.api_server = stack.enter_context(real)
            return real.kubeconfig
        emulated = self.api_server = stack.enter_context(EmulatedApiServer(bookmark_period=_BOOKMARK_PERIOD))
        emulated.serve(*self._kinds)
        emulated.load(*self._manifests)
        return emulated.kubeconfig(folder / "kubeconfig")

    def __exit__(self, *_: object) -> None:
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
            applied = self._applying_client.apply(content)
            if content["kind"] == "CustomResourceDefinition":
                self._wait_until_served(applied)
            return applied
        except ApiError as error:
            error.add_note(f"applied from {document.place}")
            raise

    def _define_kinds(self) -> None:
        """Define what a real server does not have; a kind of its own stays as it is."""
        for kind in self._kinds:
            if self._is_served(kind.resource):
                continue
            if "/" not in kind.api_version:
                raise ConfigError(f"no kind {kind.resource}: the core group takes no others. Leave it out.")
            self.apply(kind.definition())

    def _wait_until_served(self, definition: Object) -> None:
        """Wait until a real server serves a kind that is new to it; the emulated one does at once."""
        deadline = time.monotonic() + _SERVED_WITHIN
        group, versions, names = (definition["spec"][field] for field in ("group", "versions", "names"))
        for version in [each["name"] for each in versions if each["served"]]:
            kind = f"{group}/{version}/{names['kind']}"
            while not self._is_served(kind):
                if time.monotonic() > deadline:
                    raise ApiError(f"{kind} is not served after {_SERVED_WITHIN:g} s.")
                time.sleep(_LOOK_EVERY)

    def _is_served(self, kind: str) -> bool:
        with suppress(NotFound):
            next(self._applying_client.list(kind), None)
            return True
        return False

    def run_until_idle(
        self,
        *controllers: Controller,
        timeout: Duration = 30.0,
        on_failure: Literal["raise", "retry"] = "raise",
        max_failures: int | None = None,
        on_start: Hook | None = None,
        on_stop: Hook | None = None,
    ) -> None:
        """Run informer and workers of the controllers in this process until nothing is left to do.

        Idle is: every watch has handed over what there is, and nothing is ready, dirty, processing, due,
        or waiting for a retry. What asked to come back later (``Result(requeue_after=...)``) and
        dead items do not count; ``after`` of a watch is left out, so that no test waits for it. A reconcile
        that fails ends it with ReconcileFailed from the function's own error, and so does a function of a
        watch, its traceback in a note. No reconcile begins after that. With ``on_failure="retry"`` it is
        tried again, and fails it only once an item failed more than ``max_failures`` times, if that is given.
        Events that were recorded are sent when it returns. Raises TimeoutError after ``timeout`` seconds,
        which names what remained, from the last error of a reconcile; and what the run itself, or a hook,
        raised.
        """
        __tracebackhide__ = True  # pytest shows the test's line, and the failure
        manager = ObservedManager(
            controllers,
            max_failures=_allowed(on_failure, max_failures),
            redis=self.redis,
            client=self.client,
            settings=Settings(
                redis_url=self.environment["DISTQ_REDIS_URL"],
                lease_name="distq-sandbox",
                lease_duration=_LEASE_DURATION,
                renew_deadline=_RENEW_DEADLINE,
                grace_period=GRACE_PERIOD,
            ),
            on_start=on_start,
            on_stop=on_stop,
        )
        errors: list[BaseException] = []
        runner = threading.Thread(target=_run, args=(manager, errors), name="distq-sandbox")
        before = {stream.epoch for stream in Inspector(self.redis).streams()}
        runner.start()
        try:
            self._wait_until_idle(controllers, before, runner, manager, in_seconds(timeout))
        finally:
            manager.stop()
            runner.join()
            recorder.flush(_FLUSH_TIME)
        if errors:
            raise errors[0]

    def _wait_until_idle(
        self,
        controllers: Sequence[Controller],
        before: set[str],
        runner: threading.Thread,
        manager: ObservedManager,
        timeout: float,
    ) -> None:
        __tracebackhide__ = True
        inspector = Inspector(self.redis)
        run = Run(self.redis, self.client, before)
        since = inspector.now()
        deadline = time.monotonic() + timeout
        quiet_looks = 0
        while runner.is_alive() and manager.failure is None and quiet_looks < _QUIET_LOOKS:
            remains = (reason for controller in controllers for reason in what_remains(controller, run))
            first = next(remains, "")  # the rest is looked for once it is wanted
            quiet_looks = 0 if first else quiet_looks + 1
            if manager.may_not_fail and manager.failure is None:
                failed = (failed_object(controller, inspector, since) for controller in controllers)
                found = next(filter(None, failed), None)
                manager.failure = manager.failure or found  # a reconcile may have failed meanwhile
            if time.monotonic() > deadline:
                what = f"not idle after {timeout:g} s: {'; '.join(dict.fromkeys([first, *remains]))}."
                raise TimeoutError(what) from manager.last_error
            runner.join(_LOOK_EVERY)


def _allowed(on_failure: str, max_failures: int | None) -> float:
    if on_failure not in {"raise", "retry"}:
        raise ConfigError(f'bad on_failure: {on_failure!r}. Use "raise" or "retry".')
    if max_failures is None:
        return 0 if on_failure == "raise" else math.inf
    if on_failure == "raise":
        raise ConfigError('max_failures without retries: add on_failure="retry", or leave it out.')
    if not isinstance(max_failures, int) or max_failures < 0:
        raise ConfigError(f"bad max_failures: {max_failures!r}. Give a whole number, 0 or more, or None.")
    return max_failures


def _run(manager: ObservedManager, errors: list[BaseException]) -> None:
    """Run it; keep the failure that ended it, and what it raised."""
    try:
        manager.run()
    except BaseException as error:  # noqa: BLE001 - raised where it was started
        errors.append(error)
    if manager.failure is not None:
        for other in errors:
            manager.failure.add_note(f"The run itself ended with {other!r}.")
        errors.insert(0, manager.failure)


def _end_events() -> None:
    """Let no event reach the next sandbox, which a Client without arguments finds next."""
    recorder.flush(GRACE_PERIOD)
    recorder.discard()


def _restore(environment: dict[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    shared_connection().close()
