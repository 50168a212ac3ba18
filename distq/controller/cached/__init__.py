"""Objects that a watch keeps in Redis: what is kept of them, how it is read, and the fleet's own writes."""
