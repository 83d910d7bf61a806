"""Immutable expressions, schemas, streams and queries, which all other packages use."""
