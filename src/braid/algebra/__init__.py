"""Immutable expressions, schemas, streams and queries: what every other room speaks of."""
