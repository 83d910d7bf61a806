"""Input and output of a shard: ingest, ordering, results."""
