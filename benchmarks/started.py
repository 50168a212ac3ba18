"""The TARGET of ``benchmarks.starting``, which prints how far its process is."""

print("stage imports TARGET", flush=True)

from distq import Client, Controller, For, Request  # noqa: E402

_done = False
client = Client()


def reconcile(request: Request) -> None:
    """Change the object, and print once that it is done."""
    global _done  # noqa: PLW0603
    client.patch("v1/ConfigMap", request.key, {"data": {"seen": "yes"}})
    if not _done:
        _done = True
        print("stage first object done", flush=True)


started = Controller("started", reconcile, watches=[For("v1/ConfigMap")])
print("stage TARGET imported", flush=True)
