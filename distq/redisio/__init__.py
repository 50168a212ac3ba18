"""Everything that talks to Redis: connections, the layout of a queue, and the scripts that change it."""
