"""GROUP BY and SELECT DISTINCT: one row a group, as deltas."""
