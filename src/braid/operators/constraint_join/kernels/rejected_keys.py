"""Rows that can't be in a result, and what stays in memory of their keys (the *No* of the article).

If a key is unique among all events, not only among those that WHERE keeps (`unique_keys.py`), and
WHERE rejects its row, then rows that wait for that row can leave, and so can rows that wait for those.
Two Bloom filters of each index keep the keys of rejected rows. The older one is dropped when the newer
one is full. Where rows are dropped, an error of a filter may lose a result, so a key sets bits of two
words.
"""

from __future__ import annotations

from braid.jit.bloom_filter import add_to_two_words, may_contain_in_two_words
from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.operators.constraint_join.kernels.edges import edge_hash, edges_of, opposite
from braid.operators.constraint_join.kernels.eviction import evict, lookup_mask, rejection_reason
from braid.operators.constraint_join.kernels.records import Edge, Frame, Index
from braid.operators.constraint_join.kernels.store import find, following_of, row_at, tail_of


@kernel()
def _is_rejected(index: Index, hash_: int) -> bool:
    if may_contain_in_two_words(index.rejected, hash_):
        return True
    return may_contain_in_two_words(index.rejected_before, hash_)


@kernel()
def waits_for_rejected(frame: Frame, driver: int, record: Words) -> Edge:
    """The edge by which an event waits for a row that was rejected, or 0."""
    store, edges = frame.stores[driver], edges_of(frame, driver)
    for place in range(store.edge_count):
        edge = edges[place]
        index = frame.indexes[edge.index]
        if tail_of(store, record).marks[place] < 0:
            continue
        if index.rejected.keys == 0 or index.rejects == 0:
            continue
        if _is_rejected(index, edge_hash(frame, edge, store, record)):
            return edge
    return Edge(0)


@kernel()
def reject(frame: Frame, driver: int, record: Words) -> None:
    """An event can't be in a result: rows that wait for it leave."""
    store, edges = frame.stores[driver], edges_of(frame, driver)
    for place in range(store.edge_count):
        edge = edges[place]
        own = frame.indexes[edge.own]
        if own.rejected.words.address == 0 or own.rejects == 0:
            continue
        hash_ = edge_hash(frame, edge, store, record)
        add_to_two_words(own.rejected, hash_)
        other, index = frame.stores[edge.other], frame.indexes[edge.index]
        back, slot = opposite(frame, edge), find(index, hash_)
        while slot >= 0:
            following = following_of(index, slot, hash_)
            row = row_at(other, slot)
            if tail_of(other, row).marks[edge.back] >= 0:
                mask = lookup_mask(frame, back, other, row)
                evict(frame, other, slot, mask, rejection_reason(frame, edge.own))
            slot = following
