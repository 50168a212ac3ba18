"""What columns of Pods show, above all the status in one word.

Source: printPod of kubernetes pkg/printers/internalversion/printers.go.
"""

from typing import Any, NamedTuple

from distq.client.conditions import get_condition
from distq.testing.apiserver.durations import age
from distq.testing.apiserver.objects import is_true
from distq.testing.apiserver.store import Content

Container = dict[str, Any]


class _Seen(NamedTuple):
    """What the containers say: in one word, how many are ready, how often they began anew, and when last."""

    reason: str
    ready: int
    restarts: int
    last: str


def pod_ready(pod: Content) -> str:
    """Show how many of a Pod's containers are ready."""
    total = len(pod["spec"].get("containers", ())) + len(_sidecars(pod))
    return f"{_containers(pod).ready}/{total}"


def pod_status(pod: Content) -> str:
    """Show the status of a Pod in one word."""
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in {"Succeeded", "Failed"}:
            return "Terminating"
    return _containers(pod).reason


def pod_restarts(pod: Content) -> str:
    """Show how often a Pod's containers began anew, and when last."""
    _, _, restarts, last = _containers(pod)
    return f"{restarts} ({age(last)} ago)" if restarts and last else str(restarts)


def readiness_gates(pod: Content) -> str:
    """Show how many of a Pod's readiness gates are passed."""
    gates = pod["spec"].get("readinessGates", ())
    passed = sum(is_true(pod, gate["conditionType"]) for gate in gates)
    return f"{passed}/{len(gates)}" if gates else "<none>"


def _containers(pod: Content) -> _Seen:
    status = pod.get("status", {})
    reason = status.get("reason") or status.get("phase", "")
    if (get_condition(pod, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    first, initializing = _init_containers(pod, reason)
    if initializing and not is_true(pod, "Initialized"):
        return first
    sidecars = [each for each in status.get("initContainerStatuses", ()) if each["name"] in _sidecars(pod)]
    return _main_containers(pod, first, sidecars)


def _init_containers(pod: Content, reason: str) -> tuple[_Seen, bool]:
    """Return what the init containers say, and whether one of them still runs or has failed."""
    statuses = pod.get("status", {}).get("initContainerStatuses", [])
    ready = 0
    for index, each in enumerate(statuses):
        state, sidecar = each.get("state", {}), each["name"] in _sidecars(pod)
        ended, waiting = state.get("terminated"), state.get("waiting", {}).get("reason", "")
        if ended and not ended.get("exitCode"):
            continue
        if sidecar and each.get("started"):
            ready += bool(each.get("ready"))
            continue
        if ended:
            state = _end_of(ended)
        elif waiting and waiting != "PodInitializing":
            state = waiting
        else:
            state = f"{index}/{len(pod['spec'].get('initContainers', ()))}"
        return _Seen(f"Init:{state}", ready, *_restarts(statuses[: index + 1])), True
    return _Seen(reason, ready, *_restarts(statuses)), False


def _main_containers(pod: Content, first: _Seen, sidecars: list[Container]) -> _Seen:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    reason, failure, ready, running = first.reason, "", first.ready, False
    for each in reversed(statuses):
        state = each.get("state", {})
        if waiting := state.get("waiting", {}).get("reason"):
            reason = waiting
        elif ended := state.get("terminated"):
            reason = _end_of(ended)
            failure = reason if ended.get("exitCode") else failure
        elif each.get("ready") and "running" in state:
            running = True
            ready += 1
    if reason == "Completed":
        if running and is_true(pod, "Ready"):
            reason = "Running"
        elif failure or running:
            reason = failure or "NotReady"
    return _Seen(reason, ready, *_restarts([*sidecars, *statuses]))


def _end_of(ended: Container) -> str:
    signal, code = ended.get("signal"), ended.get("exitCode", 0)
    return ended.get("reason") or (f"Signal:{signal}" if signal else f"ExitCode:{code}")


def _restarts(statuses: list[Container]) -> tuple[int, str]:
    """Return how often containers began anew, and when the last one had ended that did."""
    ends = [each.get("lastState", {}).get("terminated", {}).get("finishedAt") or "" for each in statuses]
    return sum(each.get("restartCount", 0) for each in statuses), max(ends, default="")


def _sidecars(pod: Content) -> set[str]:
    inits = pod["spec"].get("initContainers", ())
    return {each["name"] for each in inits if each.get("restartPolicy") == "Always"}
