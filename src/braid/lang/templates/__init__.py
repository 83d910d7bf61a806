"""Templates: queries that differ only in their constants share one."""
