"""How often the pods of a workload were made anew, in the API server's own words."""

import json
from itertools import pairwise
from typing import Any

from distq import Client, key_of


def rollouts(client: Client, created: dict[str, Any]) -> int:
    """Return how often the pod template has changed since the workload was created, by its watch."""
    resource = f"{created['apiVersion']}/{created['kind']}"
    now = client.get(resource, key_of(created))
    assert now is not None
    templates = [created["spec"]["template"]]
    version = created["metadata"]["resourceVersion"]
    query = {"watch": "true", "fieldSelector": f"metadata.name={created['metadata']['name']}"}
    path = client.resolve(resource).path(created["metadata"]["namespace"])
    if version != now["metadata"]["resourceVersion"]:
        with client.stream(path, query={**query, "resourceVersion": version}, read_timeout=20) as lines:
            for line in lines:
                obj = json.loads(line)["object"]
                templates.append(obj["spec"]["template"])
                if obj["metadata"]["resourceVersion"] == now["metadata"]["resourceVersion"]:
                    break
    return sum(one != next_one for one, next_one in pairwise(templates))
