"""How a row leaves memory before it leaves its window: put aside, or dropped but for a sample.

A row that is sampled remembers why it would have been dropped, so that what it joins later can be
counted against that reason: a watch, by its number; then the inputs, whose rows leave after their
only result; then the indexes, of whose keys WHERE has refused the row that is waited for.
"""

from __future__ import annotations

import numpy as np

from braid.jit.runtime import kernel, load_int, store_int
from braid.operators.constraint_join.kernels.frame import (
    EDGE_INDEX,
    EDGE_MASK,
    EDGE_OTHER,
    EDGE_OWN,
    INDEXES_AT,
    INPUTS,
    KNOWN_AT,
    LEFT_EARLY,
    NOW,
    SAMPLES,
    SPILLS,
    STORES_AT,
    WATCHES,
)
from braid.operators.constraint_join.kernels.spill_filter import may_be_aside, set_aside
from braid.operators.constraint_join.kernels.store import (
    ARRIVALS,
    ASIDE,
    BASE,
    BY_ROWS,
    EVICTED,
    FIRST_INDEX,
    FLAGS,
    INDEX_WORDS,
    MASKED,
    NUMBER,
    SAMPLED,
    SIZE,
    STAYS,
    STORE_WORDS,
    STRIDE,
    WIDTH,
    find,
    hash_key,
    remove_row,
    slot_at,
)
from braid.operators.core.kernels.instances import mix


@kernel()
def is_sampled(frame: int, store: int, record: int) -> bool:
    """By its number: rows of different inputs are sampled independently of each other."""
    number = load_int(record, load_int(store, WIDTH) + NUMBER)
    seed = (load_int(store, FIRST_INDEX) + 1) << 44
    return (mix(number + seed) & 1023) < load_int(frame, SAMPLES)


@kernel()
def after_result(frame: int, input_: int) -> int:
    """The reason of rows of an input that leave after their only result."""
    return load_int(frame, WATCHES) + input_


@kernel()
def after_refusal(frame: int, index: int) -> int:
    """The reason of rows that wait for one with a key of this index which was refused."""
    return load_int(frame, WATCHES) + load_int(frame, INPUTS) + index


@kernel()
def still_to_come(frame: int, store: int, row: int) -> int:
    """What a row saves that leaves now: its bytes, for the time that it would have stayed. What is
    held of an input is what comes of it for as long as that stays, so a row of a longer window
    counts for more."""
    size, bytes_ = load_int(store, SIZE), load_int(store, STRIDE) * load_int(store, STAYS)
    if size <= 0:
        return bytes_ if size < 0 else np.int64(0)
    if load_int(store, BY_ROWS) != 0:
        passed = load_int(store, ARRIVALS) - load_int(row, load_int(store, WIDTH) + NUMBER)
    else:
        passed = load_int(frame, NOW) - load_int(row, 1)
    return max(np.int64(0), np.int64(bytes_ * (1.0 - passed / size)))


@kernel()
def leave(frame: int, store: int, record: int, mask: int, why: int) -> bool:
    """Put a record aside, to be found by the indexes of a mask, or drop it; False if it is sampled
    and stays. `why`: the reason."""
    early = load_int(frame, LEFT_EARLY) + still_to_come(frame, store, record)
    if load_int(frame, SPILLS) != 0:
        store_int(frame, LEFT_EARLY, early)
        set_aside(load_int(frame, INDEXES_AT), store, record, load_int(frame, KNOWN_AT), mask)
        return True
    flags = load_int(store, WIDTH) + FLAGS
    if is_sampled(frame, store, record):
        store_int(record, flags, load_int(record, flags) | SAMPLED | ((why + 1) << MASKED))
        return False
    store_int(frame, LEFT_EARLY, early)
    store_int(store, EVICTED, load_int(store, EVICTED) + 1)
    return True


@kernel()
def evict(frame: int, store: int, slot: int, mask: int, why: int) -> bool:
    row = slot_at(store, slot)
    if (load_int(row, load_int(store, WIDTH) + FLAGS) & SAMPLED) != 0:
        return False
    if not leave(frame, store, row, mask, why):
        return False
    remove_row(load_int(frame, INDEXES_AT), store, slot)
    return True


@kernel()
def asked_by(frame: int, edge: int, store: int, row: int) -> int:
    """The indexes by which a row can be asked for that waits for a partner: those with the key of
    the edge, since no result has it before the partner comes. All (0) if it may be there, or if the
    edge is not the only way to what lies behind it (`Stores.is_only_way`)."""
    mask = load_int(edge, EDGE_MASK)
    if mask == 0:
        return mask
    indexes = load_int(frame, INDEXES_AT)
    other = load_int(frame, STORES_AT) + load_int(edge, EDGE_OTHER) * (8 * STORE_WORDS)
    index = indexes + load_int(edge, EDGE_INDEX) * (8 * INDEX_WORDS)
    own = indexes + load_int(edge, EDGE_OWN) * (8 * INDEX_WORDS)
    hash_ = hash_key(row, load_int(store, BASE), own)
    if find(index, other, hash_) >= 0:
        return np.int64(0)
    if load_int(other, ASIDE) > 0 and may_be_aside(index, hash_):
        return np.int64(0)
    return mask
