"""Benchmarks: duotomo beside its peers, timed in one run."""
