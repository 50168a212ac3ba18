"""All communication with Redis: connections, the layout of a queue, and the scripts that change it."""
