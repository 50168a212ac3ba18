"""Lists and watches resources and hands what happens to them, in order, to a sink."""
