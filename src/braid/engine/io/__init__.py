"""Events on their way into a shard and results on their way out."""
