"""Objects that a watch keeps in Redis: which parts of them, how they are read, and the fleet's own writes."""
