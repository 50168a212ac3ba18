"""How the controllers of examples/ are tested: on the emulated and the real API server, and in processes."""
