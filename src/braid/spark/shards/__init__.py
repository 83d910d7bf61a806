"""The stateful part of a Spark pipeline: shards, their state and their checkpoints."""
