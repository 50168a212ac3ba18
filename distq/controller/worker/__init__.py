"""What every worker process runs: claim keys, reconcile them, settle what came of it."""
