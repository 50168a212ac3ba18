"""What distq costs, in ratios to what Redis itself needs and to its peers: python -m benchmarks.<name>."""
