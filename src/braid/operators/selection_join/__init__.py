"""Joins of very many queries that differ in their ranges, on multidimensional indexes."""
