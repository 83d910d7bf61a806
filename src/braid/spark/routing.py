"""Which shard an event goes to: a hash of its routing attribute, a column at a time."""

from __future__ import annotations

from braid.plan.hashing import MAX_HASHED_BYTES, hash_values, shard_of

__all__ = ["MAX_HASHED_BYTES", "hash_values", "shard_of"]
