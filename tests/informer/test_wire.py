"""Lines of a watch as API servers write them, and as they may."""

import json

import pytest

from distq.client.resources import Resource
from distq.errors import ApiError, Expired
from distq.informer.json_depth import MAX_DEPTH
from distq.informer.stored_object import Transform, store_raw, strip_managed_fields
from distq.informer.wire import decode_event, decode_page

POD = Resource("v1", "Pod", "pods", True)
OBJECT = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "prod",
        "resourceVersion": "7",
        "managedFields": [{"manager": "kubectl"}],
        "labels": {"app": "web"},
    },
}


def line(obj: object = OBJECT, kind: str = "ADDED", **rest: object) -> bytes:
    """Return a line without spaces, as API servers write it."""
    return json.dumps({"type": kind, "object": obj, **rest}, separators=(",", ":")).encode()


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize(
    "write",
    [
        lambda kind: line(kind=kind),
        lambda kind: json.dumps({"type": kind, "object": OBJECT}, indent=1).replace("\n", " ").encode(),
        lambda kind: json.dumps({"object": OBJECT, "type": kind}).encode(),
        lambda kind: line(kind=kind, more="to come"),
    ],
    ids=["plain", "spaced", "the other way round", "with more keys"],
)
def test_an_event_is_the_same_in_any_json(write: object, kind: str) -> None:
    """Type, key, version, managedFields and the whole object are read from any JSON."""
    event = decode_event(write(kind), POD)  # type: ignore[operator]
    assert (event.type, event.object.key, event.version) == (kind, "prod/web", "7")
    assert event.object.decode() == OBJECT
    assert json.loads(bytes(event.object.managed_fields)) == [{"manager": "kubectl"}]


@pytest.mark.parametrize(
    "garbage",
    [
        line()[:-1],
        line()[:-2],
        line() + b"}",
        line()[:-1] + b"]",
        line(obj={"metadata": {"name": "web"}}),
        line(obj={"metadata": {"name": "web", "resourceVersion": 7}}),
        line(obj={"metadata": {"name": "web", "resourceVersion": "!"}}),
        line(obj=None),
        line().replace(b"web", b"\xed\xa0\xbd"),
        b'{"type":"ADDED","object":}',
        b"",
    ],
)
def test_garbage_is_an_error_of_the_api_server(garbage: bytes) -> None:
    """Half a line, an object without a version: never an event, never another exception."""
    with pytest.raises(ApiError):
        decode_event(garbage, POD)


@pytest.mark.parametrize("name", [{}, {"name": ""}, {"name": 5}, {"name": "web", "namespace": ["prod"]}])
def test_an_object_without_a_name_has_no_key_and_hides_no_other(name: dict[str, object]) -> None:
    """The watch goes on after its version; of a list it may even have none."""
    odd = {"metadata": {"resourceVersion": "7", **name}}
    event = decode_event(line(obj=odd), POD)
    assert (event.object.key, event.version) == ("", "7")
    items = [odd, {"metadata": "odd"}, 5, {"metadata": {"name": "a", "resourceVersion": "8"}}]
    page = decode_page(json.dumps({"metadata": {"resourceVersion": "9"}, "items": items}).encode(), POD)
    assert [(obj.key, obj.version) for obj in page.objects] == [("", "7"), ("", ""), ("", ""), ("a", "8")]


@pytest.mark.parametrize("levels", [MAX_DEPTH // 2, 9_990])
def test_an_object_as_deep_as_api_servers_take_stops_no_stream(levels: int) -> None:
    """It is known with its siblings; a part nested too deeply for Python is read as null, which is logged."""
    deep = b'{"a":' * levels + b'["}"]' + b"}" * levels
    fields = b'[{"fieldsV1":{"f:spec":%s}}]' % deep
    metadata = b'{"managedFields":%s,"name":"deep","namespace":"prod","resourceVersion":"8"}' % fields
    text = b'{"metadata":%s,"spec":%s,"end":"]\\\\"}' % (metadata, deep)
    page = b'{"metadata":{"resourceVersion":"9"},"items":[%s,%s]}' % (text, json.dumps(OBJECT).encode())
    listed, sibling = decode_page(page, POD).objects
    assert sibling.decode() == OBJECT
    for obj in (listed, decode_event(b'{"type":"ADDED","object":%s}' % text, POD).object):
        assert (obj.key, obj.version, obj.metadata["name"]) == ("prod/deep", "8", "deep")
        kept = store_raw(obj, strip_managed_fields).decode()
        assert kept["metadata"].keys() == {"name", "namespace", "resourceVersion"}
        assert kept["end"] == "]\\"
        for _ in range(MAX_DEPTH // 2):
            kept = kept.get("spec") or kept["a"]


def test_a_caller_deep_in_calls_reads_deep_objects() -> None:
    """No object is readable when it comes, and unreadable when it is looked at."""
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    metadata = b'{"name":"deep","resourceVersion":"8","managedFields":[%s]}' % deep
    obj = decode_event(b'{"type":"ADDED","object":{"metadata":%s,"spec":%s}}' % (metadata, deep), POD).object
    stored = store_raw(obj, None)

    def look(calls: int) -> None:
        if calls:
            look(calls - 1)
        else:
            assert obj.metadata["name"] == stored.metadata()["name"] == "deep"
            assert obj.decode()["spec"]["a"]
            assert stored.decode()["spec"]["a"]

    look(200)


def test_an_error_event_is_raised() -> None:
    """An error that the API server sends in a stream of status 200 is raised like a refusal."""
    with pytest.raises(Expired):
        decode_event(
            line({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}, "ERROR"), POD
        )


@pytest.mark.parametrize(
    "metadata",
    [
        OBJECT["metadata"],
        {"managedFields": [{"manager": "kubectl"}], "name": "web", "resourceVersion": "7"},
        {"name": "web", "resourceVersion": "7", "managedFields": []},
        {"name": "web", "resourceVersion": "7"},
        {"name": "web", "resourceVersion": "7", "annotations": {"last": '{"managedFields":[]}'}},
    ],
)
@pytest.mark.parametrize("spec", [{}, {"managedFields": [{"manager": "kubectl"}]}, {"managedFields": 1}])
@pytest.mark.parametrize("spec_first", [False, True])
def test_only_the_managed_fields_of_the_metadata_are_cut_out(
    metadata: dict[str, object], spec: object, spec_first: bool
) -> None:
    """Any other field of that name stays."""
    parts: list[tuple[str, object]] = [("metadata", metadata), ("spec", spec)]
    obj = dict(reversed(parts) if spec_first else parts)
    stored = store_raw(decode_event(line(obj), POD).object, strip_managed_fields)
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    assert stored.decode() == {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}


@pytest.mark.parametrize(
    "metadata",
    [
        b'{"name":"web","resourceVersion":"7",\n"managedFields":[]}',
        b'{"managedFields":[] ,"name":"web","resourceVersion":"7"}',
        b'{"name":"web","resourceVersion":"7","managedFields":[]\n}',
        b'{"name":"web","managedFields": null,"resourceVersion":"7"}',
    ],
)
def test_managed_fields_between_spaces_are_cut_out(metadata: bytes) -> None:
    """The rest is JSON, wherever the commas are."""
    written = b'{"type":"ADDED","object":{"metadata":' + metadata + b"}}"
    stored = store_raw(decode_event(written, POD).object, strip_managed_fields)
    assert stored.decode()["metadata"] == {"name": "web", "resourceVersion": "7"}


@pytest.mark.parametrize("transform", [None, strip_managed_fields, lambda obj: obj])
def test_of_metadata_alone_a_cache_has_the_kind_of_the_object(transform: Transform | None) -> None:
    """Not PartialObjectMetadata, with any transform."""
    partial = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": OBJECT["metadata"],
    }
    stored = store_raw(decode_event(line(partial), POD).object, transform).decode()
    assert (stored["apiVersion"], stored["kind"]) == ("v1", "Pod")


def test_a_page_with_half_a_character_and_deep_nesting_is_read() -> None:
    """Either fault alone is repaired, and so are both at once."""
    deep = b"[" * 3000 + b"]" * 3000
    objects = [
        b'{"metadata":{"name":"half","resourceVersion":"7"},"x":"\\ud800"}',
        b'{"metadata":{"name":"deep","resourceVersion":"8"},"x":' + deep + b"}",
    ]
    body = b'{"metadata":{"resourceVersion":"9"},"items":[' + b",".join(objects) + b"]}"
    assert [obj.key for obj in decode_page(body, POD).objects] == ["half", "deep"]
