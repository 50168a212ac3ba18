"""What the examples ask of pods: whether they serve, and which of them matters least."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from distq import get_condition

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

Object = dict[str, Any]


def is_ready(pod: Object) -> bool:
    """Return whether a pod serves."""
    return (get_condition(pod, "Ready") or {}).get("status") == "True"


def ready_since(pod: Object) -> float:
    """Return when a pod became ready, in seconds since the epoch; 0 for one that is not."""
    return seconds((get_condition(pod, "Ready") or {})["lastTransitionTime"]) if is_ready(pod) else 0.0


def seconds(timestamp: str) -> float:
    """Return an API server's time in seconds since the epoch."""
    return datetime.fromisoformat(timestamp).timestamp()


def deletion_cost(pod: Object) -> int:
    """Return what the pod's annotation says that its deletion costs; 0 for a text that is no number."""
    try:
        return int((pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0"))
    except ValueError:
        return 0


def is_active(pod: Object) -> bool:
    """Return whether a pod has not ended, and is not about to."""
    return not is_deleted(pod) and not has_ended(pod)


def has_ended(pod: Object) -> bool:
    """Return whether the containers of a pod have ended, for better or worse."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def is_deleted(obj: Object) -> bool:
    """Return whether an object's deletion has begun."""
    return "deletionTimestamp" in obj["metadata"]


def ranking(pods: Sequence[Object]) -> Callable[[Object], tuple[object, ...]]:
    """Return the order in which pods are given up.

    First those that no node has, that do not run or are not ready, that cost least, that share their node
    with most others, and then the youngest.
    """
    shared = Counter(pod["spec"].get("nodeName") for pod in pods)

    def rank(pod: Object) -> tuple[object, ...]:
        about, status = pod["metadata"], pod.get("status", {})
        containers = status.get("containerStatuses") or []
        return (
            "nodeName" in pod["spec"],
            ("Pending", "Unknown", "Running").index(status.get("phase", "Pending")),
            is_ready(pod),
            deletion_cost(pod),
            -shared[pod["spec"].get("nodeName")],
            -ready_since(pod),
            -sum(container.get("restartCount", 0) for container in containers),
            -seconds(about["creationTimestamp"]),
            about["name"],
        )

    return rank
