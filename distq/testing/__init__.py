"""Real parts for tests, the demo and the sandbox: nothing here starts unless asked.

Everything loads on first use, because the parts need packages that the base
install does not bring.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distq.testing.apiserver import EmulatedApiServer
    from distq.testing.embedded_valkey import EmbeddedValkey
    from distq.testing.fake_clock import FakeClock
    from distq.testing.fake_list_watch import FakeListWatch
    from distq.testing.fake_lock import FakeLock
    from distq.testing.kind import Kind
    from distq.testing.sandbox import Sandbox
    from distq.workqueue.memory import MemoryQueue

_MODULES = {
    "EmbeddedValkey": "distq.testing.embedded_valkey",
    "EmulatedApiServer": "distq.testing.apiserver",
    "FakeClock": "distq.testing.fake_clock",
    "FakeListWatch": "distq.testing.fake_list_watch",
    "FakeLock": "distq.testing.fake_lock",
    "Kind": "distq.testing.kind",
    "MemoryQueue": "distq.workqueue.memory",
    "Sandbox": "distq.testing.sandbox",
}

__all__ = [
    "EmbeddedValkey",
    "EmulatedApiServer",
    "FakeClock",
    "FakeListWatch",
    "FakeLock",
    "Kind",
    "MemoryQueue",
    "Sandbox",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
