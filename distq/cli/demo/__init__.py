"""``distq demo``: everything at once, with two kills, and a summary that checks itself."""
