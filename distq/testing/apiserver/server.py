"""The server itself: an event loop in a thread of its own, and what tests ask of it."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Self

from aiohttp import web

from distq.errors import ConfigError
from distq.testing.apiserver import objects
from distq.testing.apiserver.controllers import GarbageCollector, NamespaceController
from distq.testing.apiserver.definitions import follow_definitions, resources_of
from distq.testing.apiserver.handlers import Api
from distq.testing.apiserver.manifests import Document, Manifest, read_manifest
from distq.testing.apiserver.registry import Registry
from distq.testing.apiserver.requests import RecordedRequest
from distq.testing.apiserver.resources import NAMESPACES, Catalogue
from distq.testing.apiserver.status import StatusError
from distq.testing.apiserver.store import Store
from distq.testing.kind import Kind
from distq.testing.kube_api_server import write_kubeconfig

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_MAX_REQUESTS = 1_000_000
_SHUTDOWN_TIMEOUT = 1.0
_TURNS_TO_HAND_OVER = 3


class EmulatedApiServer:
    """Serve a Kubernetes API from memory, close enough to the real one for controllers.

    ``host`` and ``port`` say where (port 0: any free one); ``history`` is the most
    events of each resource that watches can resume from (fewer once they are older
    than 75 s, as in the real one); ``bookmark_period`` is in seconds. Every token
    is accepted, there is no TLS, and of the controllers only the garbage collector
    and that of namespaces run. Source of the semantics: kube-apiserver 1.36.
    """

    def __init__(
        self, *, host: str = "127.0.0.1", port: int = 0, history: int = 102_400, bookmark_period: float = 60.0
    ) -> None:
        self.host = host
        self.port = port
        self.requests: deque[RecordedRequest] = deque(maxlen=_MAX_REQUESTS)
        """What was asked, oldest first."""
        self._history = history
        self._bookmark_period = bookmark_period
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Return where clients on this machine find the server."""
        host = "127.0.0.1" if self.host == "0.0.0.0" else self.host  # noqa: S104 - compared, not bound
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        """Serve from now on; raises ConfigError where the address cannot be bound."""
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="emulated-apiserver", daemon=True
        )
        self._thread.start()
        try:
            ready.result()
        except BaseException:
            self._thread = None
            raise

    def stop(self) -> None:
        """End all streams and stop; what was stored is forgotten."""
        if self._thread is None:
            return
        with contextlib.suppress(RuntimeError):  # it may have stopped by itself
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._thread = None

    def kubeconfig(self, path: str | Path, *, server: str | None = None, user: str = "admin") -> Path:
        """Write a kubeconfig for this server, or for another address of it, and return its path.

        ``user`` is the bearer token that it gives, by which ``requests`` distinguishes clients.
        """
        path, cluster = Path(path), {"server": server or self.url}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_kubeconfig(path, cluster=cluster, user={"token": user}, name="emulated", user_name=user)
        return path

    def serve(self, *kinds: Kind) -> None:
        """Serve kinds that it does not have, without a schema; those that it has stay as they are."""
        self._call(partial(self._serve_kinds, kinds))

    def load(self, *manifests: Manifest) -> None:
        """Create the objects of manifests, in order; what names no namespace goes to default."""
        for manifest in manifests:
            self._call(partial(self._create_all, read_manifest(manifest)))

    def compact(self) -> None:
        """Forget all history: watches, exact lists and continue tokens from before answer 410."""

        def compact_all() -> None:
            for collection in self._store:
                collection.compact(self._store.revision)

        self._call(compact_all)

    def restart_watches(self) -> None:
        """End all streams and forget what they could resume from, as a restart of the server does."""
        self._call(self._restart_watches)

    def _serve_kinds(self, kinds: Iterable[Kind]) -> None:
        for kind in kinds:
            if self._catalogue.find_kind(kind.api_version, kind.name) is None:
                for resource in resources_of(kind.definition()):
                    self._catalogue.add(resource)

    def _restart_watches(self) -> None:
        for collection in self._store:
            collection.restart_watches(self._store.revision)

    def _call(self, act: Callable[[], None]) -> None:
        """Run something on the server's loop, where all state lives."""

        async def on_loop() -> None:
            act()

        asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result()

    def _run(self, ready: "Future[None]") -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def _serve(self, ready: "Future[None]") -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._catalogue = Catalogue()
        self._store = Store(self._history, (resource.identity for resource in self._catalogue))
        self._registry = Registry(self._store)
        follow_definitions(self._store, self._catalogue)
        controllers = [
            asyncio.create_task(kind(self._catalogue, self._registry).run())
            for kind in (GarbageCollector, NamespaceController)
        ]
        for name in _NAMESPACES:
            self._registry.create(NAMESPACES, {"metadata": {"name": name}})
        api = Api(self._catalogue, self._registry, bookmark_period=self._bookmark_period)

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            user = request.headers.get("Authorization", "").removeprefix("Bearer ")
            agent, query = request.headers.get("User-Agent", ""), dict(request.query)
            self.requests.append(RecordedRequest(request.method, request.path, query, agent, user))
            return await api.handle(request)

        server = web.Server(handle, handler_cancellation=True, access_log=None)
        listener = await self._listen(server)
        ready.set_result(None)
        await self._stopping.wait()
        self._restart_watches()
        for controller in controllers:
            controller.cancel()
        await _stop_listening(listener)
        await _close_connections(server)

    async def _listen(self, server: web.Server) -> asyncio.Server:
        try:
            listener = await self._loop.create_server(server, self.host, self.port, backlog=128)
        except OSError as error:
            cause = error.strerror or str(error)
            raise ConfigError(f"cannot serve on {self.host}:{self.port}: {cause}. Choose another.") from None
        self.port = listener.sockets[0].getsockname()[1]
        return listener

    def _create_all(self, documents: Iterable[Document]) -> None:
        for place, document in documents:
            api_version, kind = document["apiVersion"], document["kind"]
            resource, refusal = self._catalogue.find_kind(api_version, kind), f"{place}: cannot load {kind}"
            if resource is None:
                raise ConfigError(f"{refusal}: no such kind in {api_version}. Load its CRD first.")
            try:
                namespace = document["metadata"].get("namespace", "default") if resource.namespaced else ""
                self._registry.create(resource, objects.accept(resource, document, namespace))
            except StatusError as error:
                raise ConfigError(f"{refusal}: {error.message.rstrip('.')}. Correct it.") from None
            except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
                raise ConfigError(f"{refusal}: a field of a wrong type. Correct it.") from None


async def _stop_listening(listener: asyncio.Server) -> None:
    """Stop accepting, and close the listener when the server has all connections that were accepted."""
    for socket in listener.sockets:
        asyncio.get_running_loop().remove_reader(socket.fileno())
    # asyncio hands over a connection in later turns of its loop; if the listener is closed by then, it
    # neither hands it over nor closes it
    for _ in range(_TURNS_TO_HAND_OVER):
        await asyncio.sleep(0)
    listener.close()


async def _close_connections(server: web.Server) -> None:
    """Let requests end, then close each connection, also one whose client does not read what is left."""
    transports = [connection.transport for connection in server.connections]
    server.pre_shutdown()
    await server.shutdown(_SHUTDOWN_TIMEOUT)
    for transport in transports:
        if transport is not None:
            transport.abort()  # close() would wait for its client to read the rest
