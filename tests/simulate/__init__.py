"""Informer, claims and commit under seeded hostile schedules, in one process and without waiting.

``python -m tests.simulate --help`` says how; docs/internals/simulator.md what is simulated and what is real.
"""
