"""Informer, claims and commit under seeded hostile schedules, in one process and without waiting.

``python -m tests.proofs.simulate --help`` has the options; docs/internals/simulator.md says what is real.
"""
