"""``distq manifests``: the objects that run a target in a cluster, derived from the target itself."""
