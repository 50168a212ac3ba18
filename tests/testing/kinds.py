"""An object of each kind that the emulated server has, as people write them."""

from typing import Any

from distq.testing.apiserver.resources import BUILT_IN, ServedResource

Object = dict[str, Any]

LABELS = {"app": "web"}
_POD = {
    "containers": [
        {
            "name": "web",
            "image": "web:1",
            "env": [{"name": "COLOR", "value": "red"}],
            "ports": [{"containerPort": 80}],
            "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": 0.5}},
            "readinessProbe": {"httpGet": {"port": 80}},
            "volumeMounts": [{"name": "config", "mountPath": "/config"}],
        }
    ],
    "volumes": [{"name": "config", "configMap": {"name": "web"}}],
}
_MOUNT = {"name": "data", "mountPath": "/data"}
_TEMPLATE = {"metadata": {"labels": LABELS}, "spec": _POD}
_SELECTED = {"selector": {"matchLabels": LABELS}, "template": _TEMPLATE}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_OWN_DATA = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "web", "image": "web:1", "volumeMounts": [_MOUNT]}]},
}
_RUN_ONCE = {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}
_WEBHOOK = {
    "name": "web.example.com",
    "clientConfig": {"service": {"namespace": "default", "name": "web"}},
    "rules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["bindings"]}
    ],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
}
_SUBJECT = {"kind": "User", "name": "ada"}

SAMPLES: dict[str, Object] = {
    "v1/ConfigMap": {"data": {"color": "red"}},
    "v1/Secret": {"stringData": {"password": "secret"}},
    "v1/Service": {"spec": {"selector": LABELS, "ports": [{"port": 80}], "clusterIP": "None"}},
    "v1/ServiceAccount": {},
    "v1/Pod": {"spec": _POD},
    "v1/Endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    "v1/LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}},
    "v1/ResourceQuota": {"spec": {"hard": {"pods": "100"}}},
    "v1/PersistentVolume": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp/web"},
        }
    },
    "v1/PersistentVolumeClaim": {"spec": _CLAIM},
    "apps/v1/Deployment": {"spec": _SELECTED},
    "apps/v1/ReplicaSet": {"spec": _SELECTED},
    "apps/v1/StatefulSet": {
        "spec": {
            **_SELECTED,
            "serviceName": "web",
            "template": _OWN_DATA,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": _CLAIM}],
        }
    },
    "apps/v1/DaemonSet": {"spec": _SELECTED},
    "batch/v1/Job": {"spec": _RUN_ONCE},
    "batch/v1/CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": _RUN_ONCE}}},
    "coordination.k8s.io/v1/Lease": {"spec": {"holderIdentity": "ada", "leaseDurationSeconds": 15}},
    "rbac.authorization.k8s.io/v1/Role": {
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    },
    "rbac.authorization.k8s.io/v1/RoleBinding": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"},
        "subjects": [_SUBJECT],
    },
    "rbac.authorization.k8s.io/v1/ClusterRole": {
        "rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]}]
    },
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "web"},
        "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": "default"}],
    },
    "storage.k8s.io/v1/StorageClass": {"provisioner": "example.com/disk"},
    "networking.k8s.io/v1/Ingress": {
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
    },
    "networking.k8s.io/v1/IngressClass": {"spec": {"controller": "example.com/web"}},
    "networking.k8s.io/v1/NetworkPolicy": {
        "spec": {"podSelector": {"matchLabels": LABELS}, "egress": [{"ports": [{"port": 53}]}]}
    },
    "autoscaling/v2/HorizontalPodAutoscaler": {
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
        }
    },
    "policy/v1/PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}}},
    "discovery.k8s.io/v1/EndpointSlice": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"]}],
        "ports": [{"port": 80}],
    },
    "scheduling.k8s.io/v1/PriorityClass": {"value": 100},
    "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration": {"webhooks": [_WEBHOOK]},
    "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration": {"webhooks": [_WEBHOOK]},
}
"""By kind, without what names them."""


def sample(kind: str, name: str) -> Object:
    """Return an object of a kind, such as ``v1/Pod``."""
    api_version, _, word = kind.rpartition("/")
    return {"apiVersion": api_version, "kind": word, "metadata": {"name": name}, **SAMPLES[kind]}


def resource_of(kind: str) -> ServedResource:
    """Return the resource of a kind, such as ``v1/Pod``."""
    return next(each for each in BUILT_IN if f"{each.api_version}/{each.kind}" == kind)


def collection(resource: ServedResource, namespace: str) -> str:
    """Return the path to the objects of a resource, those of the namespace where it has namespaces."""
    place = f"/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{'apis' if resource.group else 'api'}/{resource.api_version}{place}/{resource.plural}"
