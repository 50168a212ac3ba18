"""``distq top``: queues and their items, live in a terminal, with the repairs that are a key away."""
