"""Joins that evict rows early because of constraints that the data keep (k-Mon)."""
