"""Experiments: the tables and figures of the paper, and subjects that others made."""
