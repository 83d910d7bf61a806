"""The command line: `braid run`, `check`, `explain`, `stats`, `query add|drop|list`, `version`."""
