"""How the controllers of workers/ are tested: examples for those of one's own."""
