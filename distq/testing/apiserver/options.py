"""What a write asks for beside its body: rehearsal, field validation, field manager, how to delete.

Source: apimachinery pkg/apis/meta/v1 (CreateOptions and its siblings).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from aiohttp import web
from multidict import MultiMapping

from distq.testing.apiserver import typed
from distq.testing.apiserver.apply import FieldManager
from distq.testing.apiserver.causes import no_choice, unsupported, wrong
from distq.testing.apiserver.registry import DeleteOptions
from distq.testing.apiserver.requests import Target, decode, is_set, whole_number
from distq.testing.apiserver.status import bad_request, invalid_options

_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_PROPAGATIONS = ("Foreground", "Background", "Orphan", "nil")


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions:
    """The query of a write, parsed."""

    dry_run: bool = False
    """Whether everything is done but the change itself."""
    field_validation: str = "Warn"
    """What unknown fields are: Strict (an error), Warn or Ignore."""
    force: bool = False
    """Whether an apply takes fields from other managers."""
    field_manager: str = ""
    """The manager of the written fields, if the request names it."""
    program: str = ""
    """The manager otherwise: the program that sends the request."""
    warnings: list[str] = field(default_factory=list)
    """Warnings for the client."""

    @classmethod
    def parse(cls, request: web.BaseRequest) -> Self:
        """Parse the parameters of a request."""
        query, kind = request.query, _KINDS.get(request.method, "CreateOptions")
        validation = query.get("fieldValidation", "")
        if validation not in _VALIDATIONS:
            raise invalid_options(kind, *unsupported("fieldValidation", validation, _VALIDATIONS))
        user_agent = request.headers.get("User-Agent", "")
        return cls(
            dry_run=_dry_run(kind, query.getall("dryRun", [])),
            field_validation=validation or "Warn",
            force=is_set(query, "force"),
            field_manager=query.get("fieldManager", ""),
            program=user_agent.partition("/")[0],
        )

    def manager(self, target: Target, operation: Literal["Apply", "Update"]) -> FieldManager:
        """Return who manages what the request writes."""
        return FieldManager(self.field_manager or self.program, operation, target.subresource)


def delete_options(request: web.BaseRequest, body: bytes) -> tuple[DeleteOptions, bool]:
    """Return how to delete, and whether to do all but that; a body says all of it, and else the query."""
    if not body:
        given = _in_query(request.query)
        return how_to_delete(given), _dry_run("DeleteOptions", given["dryRun"])
    decoded = decode(body, request.headers.get("Content-Type", ""))
    if not isinstance(decoded, dict):
        raise bad_request("couldn't get version/kind; json parse error: no object")
    given = typed.delete_options(decoded)
    return how_to_delete(given), _dry_run("DeleteOptions", given.get("dryRun", []))


def _in_query(query: MultiMapping[str]) -> dict[str, Any]:
    given: dict[str, Any] = {"dryRun": query.getall("dryRun", [])}
    if policy := query.get("propagationPolicy"):
        given["propagationPolicy"] = policy
    if period := query.get("gracePeriodSeconds"):
        given["gracePeriodSeconds"] = whole_number(period)
    if "orphanDependents" in query:
        given["orphanDependents"] = is_set(query, "orphanDependents")
    return given


def how_to_delete(given: Mapping[str, Any]) -> DeleteOptions:
    """Return how to delete, as DeleteOptions in a body say it."""
    preconditions, period = given.get("preconditions", {}), given.get("gracePeriodSeconds")
    return DeleteOptions(
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=_propagation(given),
        grace_period=1 if period is not None and period < 0 else period,
    )


def _propagation(given: Mapping[str, Any]) -> str:
    """Return what becomes of dependents, by the policy or the older field."""
    propagation: str = given.get("propagationPolicy", "")
    orphans = given.get("orphanDependents")
    if propagation and orphans is not None:
        rule = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_options("DeleteOptions", wrong("propagationPolicy", propagation, rule))
    if propagation not in {"", "Background", "Foreground", "Orphan"}:
        cause = no_choice("propagationPolicy", f'"{propagation}"', _PROPAGATIONS)
        raise invalid_options("DeleteOptions", cause)
    return propagation if orphans is None else "Orphan" if orphans else "Background"


def _dry_run(kind: str, given: list[str]) -> bool:
    if any(each != "All" for each in given):
        listed = ",".join(f'"{each}"' for each in given)
        raise invalid_options(kind, no_choice("dryRun", f"[{listed}]", ["All"]))
    return bool(given)
