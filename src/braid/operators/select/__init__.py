"""Selections: the predicates of many queries in one index."""
