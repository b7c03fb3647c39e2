"""The benchmark suite. Both sides of each ratio are measured in one process: `python -m benchmarks --help`."""
