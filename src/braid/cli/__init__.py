"""The command line: `braid run`, `braid check`, `braid explain`, `braid version`."""
