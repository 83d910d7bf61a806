"""How a row leaves memory before it leaves its window: it goes to disk, or is dropped but for a sample.

A sampled row stays, and remembers why it would have been dropped, so that its later results count
against that reason. A *reason* is a number: of a watch; then of an input, whose rows leave after their
only result; then of an index, if WHERE rejected the row with the key that is waited for.
"""

from __future__ import annotations

import numpy as np

from braid.jit.hashing import mix
from braid.jit.records import Words
from braid.jit.runtime import kernel
from braid.operators.constraint_join.kernels.edges import edge_hash, find_partner
from braid.operators.constraint_join.kernels.records import MASKED, SAMPLED, Edge, Frame, Store
from braid.operators.constraint_join.kernels.spill_filter import may_be_spilled, spill_row
from braid.operators.constraint_join.kernels.store import remove_row, row_at, tail_of


@kernel()
def _is_sampled(frame: Frame, store: Store, record: Words) -> bool:
    """Whether a row is sampled, by its number: rows of different inputs independently of each other."""
    seed = (store.first_index + 1) << 44
    return (mix(tail_of(store, record).number + seed) & 1023) < frame.samples


@kernel()
def result_reason(frame: Frame, input_: int) -> int:
    """The reason of rows of an input that leave after their only result."""
    return frame.watch_count + input_


@kernel()
def rejection_reason(frame: Frame, index: int) -> int:
    """The reason of rows that wait for a rejected row with a key of this index."""
    return frame.watch_count + frame.inputs + index


@kernel()
def still_to_come(frame: Frame, store: Store, row: Words) -> int:
    """What a row saves that leaves now: its bytes, for the time that it would have stayed. Rows of a
    longer window count for more, because more of them are held."""
    size, bytes_ = store.size, 8 * store.slot_words * store.lifetime
    if size <= 0:
        return bytes_ if size < 0 else np.int64(0)
    if store.by_rows != 0:
        passed = store.arrivals - tail_of(store, row).number
    else:
        passed = frame.now - row[1]
    return max(0, np.int64(bytes_ * (1.0 - passed / size)))


@kernel()
def leave(frame: Frame, store: Store, record: Words, mask: int, reason: int) -> bool:
    """Spill a row, to be found by the indexes of a mask, or drop it; False if it is sampled and stays."""
    saved = frame.saved + still_to_come(frame, store, record)
    if frame.spills != 0:
        frame.saved = saved
        spill_row(frame, store, record, mask)
        return True
    if _is_sampled(frame, store, record):
        tail_of(store, record).flags |= SAMPLED | ((reason + 1) << MASKED)
        return False
    frame.saved = saved
    store.evicted += 1
    return True


@kernel()
def evict(frame: Frame, store: Store, slot: int, mask: int, reason: int) -> bool:
    """Let the row of a slot leave; False if it stays."""
    row = row_at(store, slot)
    if (tail_of(store, row).flags & SAMPLED) != 0:
        return False
    if not leave(frame, store, row, mask, reason):
        return False
    remove_row(frame.indexes, store, slot)
    return True


@kernel()
def lookup_mask(frame: Frame, edge: Edge, store: Store, row: Words) -> int:
    """The indexes by which a row is looked up that waits for a partner: those with the key of the edge,
    because no result has the row before the partner comes. All of them (0) if the partner may be there,
    or if the edge is not the only way to the inputs behind it (`Stores.is_only_way`)."""
    if edge.mask == 0:
        return np.int64(0)
    hash_ = edge_hash(frame, edge, store, row)
    if find_partner(frame, edge, hash_) >= 0:
        return np.int64(0)
    if may_be_spilled(frame.indexes[edge.index], frame.stores[edge.other], hash_):
        return np.int64(0)
    return edge.mask
