"""The path in every worker process: claim keys, reconcile them, settle the results."""
