"""``distq manifests``: what a cluster needs to run a target, derived from the target itself."""
