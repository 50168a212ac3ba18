"""Real processes under load, through every fault that one machine can produce, and a judge of what they did.

python -m tests.proofs.nemesis --profile short --json
"""
