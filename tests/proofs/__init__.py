"""What proves that the promises hold: see docs/internals/proofs.md."""
