"""Readers of data that others made: each returns a subject or a scan in the machine frame."""
