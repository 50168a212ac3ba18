"""distq's queues as web pages, for people on call.

rq-dashboard gives URLs; what they show comes from an Inspector alone, and no code of rq ever talks to Redis.
Without a login it is only reachable from its own machine.
"""

from distq.errors import ConfigError

try:
    from distq.dashboard.app import create_app
    from distq.dashboard.gate import Gate
    from distq.dashboard.server import create_server, serve
except ModuleNotFoundError as missing:
    if str(missing.name).startswith("distq"):
        raise
    raise ConfigError(
        f'no dashboard: no module "{missing.name}". Run pip install "distq[dashboard]".'
    ) from missing

__all__ = ["Gate", "create_app", "create_server", "serve"]
