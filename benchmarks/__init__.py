"""The benchmark suite: ratios from both sides measured in one run. `python -m benchmarks --help`."""
