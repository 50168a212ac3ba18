"""The Kubernetes API with dicts for objects, and the only importer of ``kubernetes``."""

try:
    from distq.client.client import Client
    from distq.client.objects import Object
    from distq.client.resources import Resource
except ModuleNotFoundError as missing:
    if str(missing.name).partition(".")[0] not in {"msgspec", "urllib3"}:
        raise  # no extra brings another module
    from distq.extras import missing_extra

    raise missing_extra("no Kubernetes client", "kubernetes") from None

__all__ = ["Client", "Object", "Resource"]
