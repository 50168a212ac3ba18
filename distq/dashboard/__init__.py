"""distq's queues as web pages, for people on call.

The pages are distq's own; rq-dashboard's URLs are answered beside them. All data comes from an Inspector, and
no code of rq or rq-dashboard connects to Redis. Without a login it listens on loopback addresses alone.
"""

import warnings
from typing import Any

from distq.extras import missing_extra

try:
    from distq.dashboard.access_policy import AccessPolicy
    from distq.dashboard.app import create_app
    from distq.dashboard.server import create_server, serve
except ModuleNotFoundError as missing:
    if str(missing.name).startswith("distq"):
        raise
    raise missing_extra(f'no dashboard (no module "{missing.name}")', "dashboard") from missing

__all__ = ["AccessPolicy", "create_app", "create_server", "serve"]


def __getattr__(name: str) -> Any:
    """Answer to the old name of AccessPolicy, for one version."""
    if name == "Gate":
        warnings.warn("Gate is AccessPolicy now.", DeprecationWarning, stacklevel=2)
        return AccessPolicy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
