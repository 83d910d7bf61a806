"""Where queries run: keys, routing hashes, placement, rescaling."""
