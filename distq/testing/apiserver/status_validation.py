"""What is wrong with the status of a built-in kind, such as counts that contradict each other.

By the name of the status's type, as ``validation``.
Source: kubernetes pkg/apis/{apps,batch,policy}/validation, pkg/registry/batch/job/strategy.go.
"""

from collections.abc import Iterator, Sequence

from distq.testing.apiserver.built_in_kinds import names_in, rules_of
from distq.testing.apiserver.built_in_schemas import NAME, Schema, pointers
from distq.testing.apiserver.causes import Cause, Fields, required, wrong
from distq.testing.apiserver.validation import negative_numbers

_OPPOSED = (
    ("Complete", "Failed"),
    ("Complete", "FailureTarget"),
    *(("SuccessCriteriaMet", each) for each in ("Failed", "FailureTarget")),
)
"""Conditions of which a Job has one."""


def status_violations(schema: Schema, new: Fields, old: Fields) -> Iterator[Cause]:
    """Yield what is wrong with a status that was another one before."""
    name = schema.get(NAME, "")
    rules = rules_of(name)
    yield from negative_numbers(rules, new, "status.")
    if within := names_in(rules, "within_replicas"):
        yield from _counts(name, within, new)
    for field, rule in rules.get("never_fewer", {}).items():
        is_unset = field in pointers(name) and field not in old
        if not is_unset and (count := new.get(field, 0)) < old.get(field, 0):
            yield wrong(f"status.{field}", count, rule)
    if name == "batch.v1.JobStatus":
        yield from _job(new, old)


def _counts(name: str, within: Sequence[str], status: Fields) -> Iterator[Cause]:
    replicas, ready, available = (
        status.get(each, 0) for each in ("replicas", "readyReplicas", "availableReplicas")
    )
    for field in within:
        if (count := status.get(field, 0)) > replicas:
            yield wrong(f"status.{field}", count, "cannot be greater than status.replicas")
    if available > ready:
        bound = "status.readyReplicas" if name == "apps.v1.StatefulSetStatus" else "readyReplicas"
        yield wrong("status.availableReplicas", available, f"cannot be greater than {bound}")


def _job(new: Fields, old: Fields) -> Iterator[Cause]:
    """Yield what an end lacks, or contradicts; what was so before is not looked at again."""
    are, were = _true_conditions(new), _true_conditions(old)
    finished = bool(are & {"Complete", "Failed"})
    ended = finished != bool(were & {"Complete", "Failed"})
    completes = ("Complete" in are) != ("Complete" in were)

    def changes(field: str) -> bool:
        return new.get(field) != old.get(field)

    if "Complete" in are and "completionTime" not in new and (completes or changes("completionTime")):
        yield required("status.completionTime", "completionTime is required for Complete jobs")
    if finished and "startTime" not in new and (ended or changes("startTime")):
        yield required("status.startTime", "startTime is required for finished job")
    if "Complete" not in are and "completionTime" in new and (completes or changes("completionTime")):
        rule = "cannot set completionTime when there is no Complete=True condition"
        yield wrong("status.completionTime", new["completionTime"], rule)
    for one, other in _OPPOSED:
        if {one, other} <= are and not {one, other} <= were:
            yield _contradiction(f"cannot set {one}=True and {other}=true conditions")
    for condition, needed in (("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")):
        if condition in are and needed not in are and (condition not in were):
            yield _contradiction(f"cannot set {condition}=True condition without the {needed}=true condition")
    for field in ("active", "terminating"):
        if finished and new.get(field, 0) > 0 and (ended or changes(field)):
            yield wrong(f"status.{field}", new[field], f"{field}>0 is invalid for finished job")
    if "ready" in new and new["ready"] > new.get("active", 0) and (changes("ready") or changes("active")):
        yield wrong("status.ready", new["ready"], "cannot set more ready pods than active")


def _true_conditions(status: Fields) -> set[str]:
    return {each.get("type", "") for each in status.get("conditions", ()) if each.get("status") == "True"}


def _contradiction(rule: str) -> Cause:
    return "FieldValueInvalid", "status.conditions", f"Invalid value: {rule}"
