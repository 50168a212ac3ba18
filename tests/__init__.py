"""distq's tests; folders mirror the package, ``fixtures`` starts the real servers."""
