"""Rows on disk: a constraint join in exact mode evicts rows to a file."""
